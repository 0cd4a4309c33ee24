"""GBNF grammars on real models: what comes out belongs to them, and all that belongs to them can come out."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engines import loaded
from gbnf_reference import matches
from llmserve import Engine, ModelConfig
from llmserve.server.grammars.translation import gbnf_to_lark

JSON_LIKE = r"""
root   ::= space object
value  ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" space (member ("," space member)*)? space "}"
member ::= string space ":" space value
array  ::= "[" space (value ("," space value)*)? space "]"
string ::= "\"" ([^"\\\x00-\x1f] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}))* "\""
number ::= "-"? ("0" | [1-9] [0-9]{0,9}) ("." [0-9]{1,6})?
space  ::= [ ]?
"""
SUMS = r"""
root ::= sum " = " number
sum  ::= product ([-+] product)*
product ::= factor ([*/] factor)*
factor ::= number | name | "(" sum ")"
number ::= [0-9]{1,3}
name ::= [a-z] [a-z0-9]{0,4}
"""
MOVES = r"""
root ::= "1. " move " " move ("\n" [2-9] ". " move " " move){0,2}
move ::= (piece | pawn | "O-O" "-O"?) [+#]?
piece ::= [KQRBN] [a-h1-8]? "x"? square
pawn ::= ([a-h] "x")? square ("=" [QRBN])?
square ::= [a-h] [1-8]
"""
LIST = 'root ::= item{2,4}\nitem ::= "- " [^\\n]{1,30} "\\n"'


@pytest.fixture(scope="module")
def tiny(tiny_model: Path) -> Iterator[Engine]:
    """Random weights: it writes whatever it may."""
    with loaded(tiny_model, ModelConfig(context_length=256, max_sequences=4, threads=1)) as engine:
        yield engine


def samples(engine: Engine, gbnf: str, prompt: str, count: int, **params: Any) -> list[tuple[str, bool]]:
    """Texts, and whether each is whole."""

    async def run() -> list[tuple[str, bool]]:
        lark = gbnf_to_lark(gbnf)
        runs = (engine.generate(prompt, grammar=lark, seed=seed, **params) for seed in range(count))
        made = await asyncio.gather(*runs)
        return [(completion.text, completion.finish_reason == "stop") for completion in made]

    return asyncio.run(run())


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.parametrize(
    ("gbnf", "prompt"),
    [
        (JSON_LIKE, "A city as JSON:\n"),
        (SUMS, "2 + 3 = 5\n"),
        (MOVES, "A game of chess:\n"),
        (LIST, "Fruit:\n"),
    ],
    ids=["json", "sums", "moves", "list"],
)
def test_what_comes_out_belongs_to_the_grammar(engine: Engine, gbnf: str, prompt: str) -> None:
    made = samples(engine, gbnf, prompt, 3, temperature=0.6, max_tokens=110)
    whole = [text for text, is_whole in made if is_whole]
    assert whole
    assert [text for text in whole if not matches(gbnf, text)] == []
    if gbnf == JSON_LIKE:
        assert all(isinstance(json.loads(text), dict) for text in whole)
    if gbnf == LIST:
        assert all(re.fullmatch(r"(- [^\n]{1,30}\n){2,4}", text) for text in whole)


@pytest.mark.parametrize(
    ("gbnf", "texts"),
    [
        # Each needs a lexer that does not just read as far as it can.
        ('root ::= ("a" | "ab") "bc"', {"abc", "abbc"}),
        ('root ::= ("a" | "ab") "bc" | "(" root ")"', {"abc", "abbc", "(abc)"}),
        ('root ::= [ab]{1,2} "b" | "(" root ")" root', {"ab", "bb", "aab", "abb", "bab", "bbb"}),
        ('root ::= x "é" | "(" root "é"\nx ::= "e" | "eè" | "eé"', {"eé", "eèé", "eéé"}),
        # What may follow a run of characters may be in it, too.
        ('root ::= [abé]+ "b" | "(" root ")" [é-í]*', {"ab", "éb"}),
        ('root ::= "" | root "a" root "b"', {"", "ab", "aabb", "abab"}),
        ('root ::= a b\na ::= "x"*\nb ::= "y"?', {"", "x", "xy", "y"}),
    ],
)
def test_all_of_the_grammar_can_come_out(tiny: Engine, gbnf: str, texts: set[str]) -> None:
    made = samples(tiny, gbnf, "sea", 120, temperature=100, max_tokens=20)
    whole = {text for text, is_whole in made if is_whole}
    assert {text for text in whole if not matches(gbnf, text)} == set()
    assert texts <= whole
