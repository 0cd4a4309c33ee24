"""Log-probabilities of a prompt: vLLM's `prompt_logprobs`, and the lists of a prompt that is echoed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from llmserve.engine import Engine
from llmserve.server.apis.openai.logprobs import LegacyLogprobs
from llmserve.server.generation.logprobs import finite, load_texts, name_of
from llmserve.types import PromptToken

_PIECE = 64
"""Tokens that are rendered at a time: other tasks may run in between."""


async def prompt_logprobs(
    engine: Engine, prompt: Sequence[PromptToken], num_top: int
) -> list[dict[str, Any] | None]:
    """`prompt_logprobs` as vLLM shows it: for each token, the token itself and the likeliest ones by id."""
    return [
        _position(token, num_top, texts)
        async for tokens, texts in _pieces(engine, prompt)
        for token in tokens
    ]


def _position(token: PromptToken, num_top: int, texts: Mapping[int, bytes]) -> dict[str, Any] | None:
    if token.logprobs is None:
        return None
    ranked = [(token.id, token.logprobs.logprob, token.rank)]
    ranked += [(id_, logprob, rank) for rank, (id_, logprob) in enumerate(token.logprobs.top[:num_top], 1)]
    shown: dict[str, Any] = {}
    for id_, logprob, rank in ranked:
        entry = {"logprob": finite(logprob), "rank": rank, "decoded_token": name_of(texts[id_])}
        shown.setdefault(str(id_), entry)
    return shown


async def echoed(
    engine: Engine, prompt: Sequence[PromptToken], text: str, legacy: LegacyLogprobs
) -> dict[str, Any]:
    """The lists of a prompt's tokens, which are echoed as `text`; the output's follow them."""
    offsets = Offsets(text)
    lists: dict[str, Any] = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
    async for tokens, texts in _pieces(engine, prompt):
        for token in tokens:
            name, logprob, top = legacy.entry(token, texts)
            lists["tokens"].append(name)
            lists["token_logprobs"].append(logprob)
            lists["top_logprobs"].append(top)
            lists["text_offset"].append(offsets.next(texts[token.id]))
    legacy.skip(text)
    return legacy.lists(**lists)


class Offsets:
    """Where tokens begin in their text, in characters. A token that is not in it, as BOS, has no length."""

    def __init__(self, text: str) -> None:
        self._data = text.encode()
        self._position = 0
        self._num_begun = 0
        """The characters that begin before the position."""

    def next(self, piece: bytes) -> int:
        """The offset of the next token; in the middle of a character, that of the character."""
        data, start = self._data, self._position
        is_inside = start < len(data) and data[start] & 0xC0 == 0x80
        offset = self._num_begun - is_inside
        if start == 0 and not data.startswith(piece):
            # SentencePiece puts a space before a text.
            piece = piece.removeprefix(b" ")
        if data.startswith(piece, start):
            self._position += len(piece)
            self._num_begun += sum(byte & 0xC0 != 0x80 for byte in piece)
        return offset


async def _pieces(
    engine: Engine, prompt: Sequence[PromptToken]
) -> AsyncGenerator[tuple[Sequence[PromptToken], dict[int, bytes]], None]:
    for start in range(0, len(prompt), _PIECE):
        tokens = prompt[start : start + _PIECE]
        yield tokens, await load_texts(engine, tokens)
        await asyncio.sleep(0)
