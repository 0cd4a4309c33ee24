"""llama-server's `/tokenize`, `/detokenize` and `/props`, for models of all kinds."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from llmserve import __version__
from llmserve.embedder import Embedder
from llmserve.engine import Engine
from llmserve.server.apis.openai.contents import MODEL_ERRORS, answered
from llmserve.server.apis.openai.tokens_schema import DetokenizeRequest, TokenizeRequest
from llmserve.server.error_shapes.openai import OPENAI
from llmserve.server.models.on_demand import UsedHandle
from llmserve.server.refusals import FieldError
from llmserve.server.services import Services
from llmserve.server.web.endpoint import Endpoint
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.headers import answer_headers
from llmserve.server.web.parameters import Parameter, as_it_is

MAX_PIECES = 10_000
"""Maximum number of tokens whose texts are given: each is a call of its own."""

_MODEL: Parameter[str, None] = Parameter(
    name="model",
    place="query",
    doc="A model's id. Absent: the first of `GET /v1/models`.",
    read=as_it_is,
    default=None,
)


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
            tokens: list[Any] = await used.handle.tokenize(
                text, add_special=request.add_special, parse_special=request.parse_special
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

    @Endpoint(
        path="/props",
        method="GET",
        dialect=OPENAI,
        operation_id="props",
        summary="Properties of a model",
        description=(
            "llama-server's properties of the first model in `GET /v1/models`, or of the one that the query "
            "`model` names. It must be loaded: this route loads none."
        ),
        responses=answered("The properties.", {"total_slots": 16}),
        errors={
            404: "There is no such model.",
            409: "The model is not loaded.",
            502: "The model could not be loaded a moment ago.",
            503: "The model is being loaded.",
        },
        parameters=[_MODEL],
    )
    async def props(self, exchange: Exchange) -> None:
        """`GET /props`."""
        services = self._services
        # A GET changes nothing: browsers send it for any page's links and images.
        found = await services.on_demand.loaded(_MODEL.of(exchange.request.scope))
        info = found.handle.info
        await exchange.send_json(
            {
                "default_generation_settings": {"n_ctx": info.context_length},
                "total_slots": info.num_slots,
                "model_alias": found.entry.id,
                "chat_template": info.chat_template,
                "bos_token": info.bos_text,
                "eos_token": info.eos_text,
                "modalities": {"vision": False, "audio": False},
                "build_info": f"llmserve {__version__}",
                "is_sleeping": False,
            }
        )

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
