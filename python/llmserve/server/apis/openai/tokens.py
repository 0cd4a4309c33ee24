"""llama-server's `/tokenize` and `/detokenize`, for models of all kinds."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from llmserve.embedder import Embedder
from llmserve.engine import Engine
from llmserve.server.apis.openai.contents import answered
from llmserve.server.apis.openai.tokens_schema import DetokenizeRequest, TokenizeRequest
from llmserve.server.error_shapes.openai import OPENAI
from llmserve.server.models.on_demand import UsedHandle
from llmserve.server.prompts.mixed import tokens_of
from llmserve.server.refusals import FieldError
from llmserve.server.services import Services
from llmserve.server.web.endpoint import Endpoint
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.headers import answer_headers
from llmserve.server.web.model_errors import MODEL_ERRORS

MAX_PIECES = 10_000
"""Maximum number of tokens whose texts are given: each is a call of its own."""


class TokensApi:
    """The routes over the shared services."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @Endpoint(
        path="/tokenize",
        method="POST",
        dialect=OPENAI,
        operation_id="tokenize",
        summary="Tokens of a text",
        description="The request and the answer are llama-server's.",
        body=TokenizeRequest,
        responses=answered("The tokens.", {"tokens": [504, 3575]}),
        errors=MODEL_ERRORS,
    )
    async def tokenize(self, exchange: Exchange) -> None:
        """`POST /tokenize`."""
        parsed = await exchange.read(TokenizeRequest)
        request = parsed.value
        text = request.prompt if request.content is None else request.content
        if text is None:
            raise FieldError("content", "is required")
        async with self._use(request.model) as used:
            tokens: list[Any] = await tokens_of(
                used.handle, text, add_special=request.add_special, parse_special=request.parse_special
            )
            if request.with_pieces:
                tokens = await _with_pieces(used.handle, tokens)
        await exchange.send_json({"tokens": tokens}, headers=answer_headers(parsed.unknown))

    @Endpoint(
        path="/detokenize",
        method="POST",
        dialect=OPENAI,
        operation_id="detokenize",
        summary="Text of tokens",
        description="The request and the answer are llama-server's; control tokens are shown.",
        body=DetokenizeRequest,
        responses=answered("The text.", {"content": "The capital"}),
        errors=MODEL_ERRORS,
    )
    async def detokenize(self, exchange: Exchange) -> None:
        """`POST /detokenize`."""
        parsed = await exchange.read(DetokenizeRequest)
        async with self._use(parsed.value.model) as used:
            text = await used.handle.detokenize(parsed.value.tokens, render_special=True)
        await exchange.send_json({"content": text}, headers=answer_headers(parsed.unknown))

    @asynccontextmanager
    async def _use(self, model_id: str | None) -> AsyncGenerator[UsedHandle, None]:
        async with self._services.on_demand.use_any(model_id) as used:
            yield used


async def _with_pieces(handle: Engine | Embedder, tokens: Sequence[int]) -> list[dict[str, Any]]:
    if len(tokens) > MAX_PIECES:
        raise FieldError(
            "content",
            f"must have at most {MAX_PIECES} tokens for with_pieces, got {len(tokens)}",
            limit=MAX_PIECES,
        )
    known: dict[int, Any] = {}
    for token in tokens:
        if token not in known:
            known[token] = _piece(await handle.detokenize_bytes([token], render_special=True))
    return [{"id": token, "piece": known[token]} for token in tokens]


def _piece(data: bytes) -> str | list[int]:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return list(data)
