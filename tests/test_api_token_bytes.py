"""`Engine.token_bytes`."""

from __future__ import annotations

import pytest

from llmserve import Engine, InvalidParameterError

pytestmark = [pytest.mark.model, pytest.mark.anyio]


async def test_the_bytes_of_tokens(engine: Engine) -> None:
    text = "naïve 🦙 <|im_end|>"
    tokens = await engine.tokenize(text)
    pieces = await engine.token_bytes(tokens)
    assert b"".join(pieces) == text.encode()
    # The second time they are known.
    assert await engine.token_bytes(iter(tokens)) == pieces
    assert await engine.token_bytes([]) == []


async def test_an_unknown_token(engine: Engine) -> None:
    with pytest.raises(InvalidParameterError, match="10000000"):
        await engine.token_bytes([1, 10_000_000])
