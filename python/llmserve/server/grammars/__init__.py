"""Grammars in the notations of other programs, translated to the one of the engine (llguidance's Lark).

Steps: `gbnf` reads the text, `simplify` prunes it, `recursion` writes simple recursion as repetition,
`lexemes` decides what becomes a terminal, `lark` writes the result. What the grammar allows stays exactly
the same.
"""

from __future__ import annotations

from llmserve.server.grammars.gbnf import GrammarSyntaxError, read_gbnf
from llmserve.server.grammars.lark import write_lark
from llmserve.server.grammars.lexemes import cut_lexemes
from llmserve.server.grammars.recursion import without_linear_recursion
from llmserve.server.grammars.simplify import simplified

__all__ = ["GrammarSyntaxError", "ebnf_to_lark", "gbnf_to_lark"]


def ebnf_to_lark(text: str) -> str:
    """A grammar in either notation, as llguidance's Lark: GBNF if it has a `::=`, otherwise unchanged Lark.

    Takes as long as `gbnf_to_lark`; thread-safe. Raises `GrammarSyntaxError`.
    """
    return gbnf_to_lark(text) if "::=" in text else text


def gbnf_to_lark(text: str) -> str:
    """A grammar in GBNF (as llama.cpp and xgrammar have it; `root` is its start) in llguidance's Lark.

    Takes up to about a second for the largest sensible grammar; thread-safe. Raises `GrammarSyntaxError`.
    """
    grammar = simplified(read_gbnf(text))
    if grammar is None:
        raise GrammarSyntaxError("the rule 'root' matches no finite text")
    grammar = without_linear_recursion(grammar)
    return write_lark(cut_lexemes(grammar), grammar)
