"""What comes out of any GBNF grammar belongs to it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbnf_reference import matches
from llmserve import Completion, Engine, ModelConfig
from llmserve.server.grammars.translation import GrammarSyntaxError, gbnf_to_lark

NUM_TEXTS = 2
MAX_TOKENS = 100
LEAVES = ('"a"', '"b"', '"ab"', '"é"', "[a-cé]", '""')
# Between parentheses: where a rule is its own beginning in many ways, a token can take seconds.
RECURSION = '"(" root ")"'
SUFFIXES = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,2}"])


def rules(*items: str) -> st.SearchStrategy[str]:
    """Bodies of rules, with groups."""
    group = _choices(st.sampled_from(items)).map(lambda body: f"({body})")
    return _choices(st.one_of(st.sampled_from(items), group))


def _choices(items: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    repeated = st.tuples(items, SUFFIXES).map("".join)
    sequences = st.lists(repeated, min_size=1, max_size=3).map(" ".join)
    return st.lists(sequences, min_size=1, max_size=3).map(" | ".join)


@pytest.fixture(scope="module")
def running(tiny_model: Path) -> Iterator[tuple[asyncio.Runner, Engine]]:
    with asyncio.Runner() as runner:
        config = ModelConfig(context_length=256, max_sequences=NUM_TEXTS, threads=1)
        engine = runner.run(Engine.load(tiny_model, config))
        yield runner, engine
        runner.run(engine.close())


@settings(max_examples=40)
@given(root=rules(*LEAVES, "x", "y"), x=rules(*LEAVES, "y"), y=rules(*LEAVES))
def test_what_comes_out_belongs_to_the_grammar(
    running: tuple[asyncio.Runner, Engine], root: str, x: str, y: str
) -> None:
    gbnf = f"root ::= {root} | {RECURSION}\nx ::= {x}\ny ::= {y}"
    try:
        lark = gbnf_to_lark(gbnf)
    except GrammarSyntaxError as error:
        assert "matches no finite text" in str(error)
        return
    runner, engine = running

    async def run(seed: int) -> Completion:
        return await engine.generate("sea", grammar=lark, seed=seed, temperature=100, max_tokens=MAX_TOKENS)

    async def texts() -> list[str]:
        made = await asyncio.gather(*map(run, range(NUM_TEXTS)))
        return [completion.text for completion in made if completion.finish_reason == "stop"]

    assert [text for text in runner.run(texts()) if not matches(gbnf, text)] == []
