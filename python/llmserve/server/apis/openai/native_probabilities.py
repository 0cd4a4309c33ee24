"""llama-server's `completion_probabilities`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from llmserve.engine import Engine
from llmserve.server.generation.logprobs import finite, load_texts
from llmserve.types import Token


async def probabilities(engine: Engine, tokens: Iterable[Token]) -> list[dict[str, Any]]:
    """One entry for each token, with its alternatives."""
    drawn = [token for token in tokens if token.logprobs is not None]
    texts = await load_texts(engine, drawn)
    return [_entry(token, texts) for token in drawn]


def _entry(token: Token, texts: Mapping[int, bytes]) -> dict[str, Any]:
    logprobs = token.logprobs
    if logprobs is None:
        return {}
    top = [_named(id_, texts[id_], logprob) for id_, logprob in logprobs.top]
    return {**_named(token.id, token.bytes, logprobs.logprob), "top_logprobs": top}


def _named(token: int, data: bytes, logprob: float) -> dict[str, Any]:
    text = data.decode(errors="ignore")
    return {"id": token, "token": text, "bytes": list(data), "logprob": finite(logprob)}
