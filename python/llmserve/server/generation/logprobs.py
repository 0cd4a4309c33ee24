"""Log-probabilities of output: which tokens may be shown, and how each of them is written."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from llmserve.engine import Engine
from llmserve.types import PromptToken, Token

_NEVER = -9999.0
"""Stands for minus infinity, which JSON cannot hold, as in OpenAI's answers."""


async def load_texts(engine: Engine, tokens: Iterable[Token | PromptToken]) -> dict[int, bytes]:
    """The bytes of tokens and of their alternatives by id; for control tokens, the bytes of their names."""
    ids: set[int] = set()
    for token in tokens:
        ids.add(token.id)
        if token.logprobs is not None:
            ids.update(id_ for id_, _ in token.logprobs.top)
    return dict(zip(ids, await engine.token_bytes(ids), strict=True))


class ShownTokens:
    """Holds tokens until their text is shown, so that those of a stop string never are."""

    __slots__ = ("_position", "_queue", "_released")

    def __init__(self) -> None:
        self._queue: deque[Token] = deque()
        self._position = 0
        self._released = 0

    def push(self, text: str, tokens: Iterable[Token]) -> list[Token]:
        """The tokens that may be shown with a text."""
        self._released += len(text.encode())
        self._queue.extend(tokens)
        shown = []
        while self._queue and self._is_shown(self._queue[0]):
            token = self._queue.popleft()
            self._position += len(token.bytes)
            shown.append(token)
        return shown

    def _is_shown(self, token: Token) -> bool:
        return self._position < self._released or (not token.bytes and self._position == self._released)

    def flush(self, stop: str | None) -> list[Token]:
        """The tokens that are left at the end; none if a stop string ended the text."""
        rest = [] if stop is not None else list(self._queue)
        self._queue.clear()
        return rest


def scored(tokens: Iterable[Token], texts: Mapping[int, bytes]) -> list[dict[str, Any]]:
    """The tokens that have log-probabilities, with their alternatives."""
    return [
        {
            **_entry(texts[token.id], token.bytes, token.logprobs.logprob),
            "top_logprobs": [_entry(texts[id_], texts[id_], logprob) for id_, logprob in token.logprobs.top],
        }
        for token in tokens
        if token.logprobs is not None
    ]


def _entry(text: bytes, data: bytes, logprob: float) -> dict[str, Any]:
    return {"token": name_of(text, ""), "logprob": finite(logprob), "bytes": list(data)}


def finite(logprob: float) -> float:
    """A log-probability as JSON can hold it."""
    return logprob if math.isfinite(logprob) else _NEVER


def name_of(data: bytes, prefix: str = "bytes:") -> str:
    """A token's bytes as text; a part of a character as its bytes after a prefix."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return prefix + "".join(f"\\x{byte:02x}" for byte in data)
