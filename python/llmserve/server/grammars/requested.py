"""Grammars that clients send."""

from __future__ import annotations

import anyio.to_thread

from llmserve.server.refusals import FieldError

MAX_GRAMMAR_BYTES = 64 << 10


async def read_grammar(text: str, field: str) -> str:
    """A grammar as the engine reads it. Translating a large one takes a while, so a thread does it.

    Raises:
        FieldError: The grammar has a mistake, or is too large.
    """
    num_bytes = len(text.encode(errors="replace"))
    if num_bytes > MAX_GRAMMAR_BYTES:
        raise FieldError(
            field, f"must have at most {MAX_GRAMMAR_BYTES} bytes, got {num_bytes}", limit=MAX_GRAMMAR_BYTES
        )
    # Imported late: most servers never get a grammar.
    from llmserve.server.grammars.translation import GrammarSyntaxError, ebnf_to_lark

    try:
        return await anyio.to_thread.run_sync(ebnf_to_lark, text)
    except GrammarSyntaxError as error:
        raise FieldError(field, f"is not valid GBNF: {error}") from None
