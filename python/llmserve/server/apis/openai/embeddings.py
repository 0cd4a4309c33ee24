"""`/v1/embeddings`, and llama-server's `/embedding` and `/embeddings`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from llmserve.embedder import Embedder
from llmserve.embeddings import Embeddings
from llmserve.server.apis.openai import embeddings_convert as convert
from llmserve.server.apis.openai.contents import answered
from llmserve.server.apis.openai.embeddings_schema import EmbeddingRequest, EmbeddingsRequest
from llmserve.server.error_shapes.openai import OPENAI
from llmserve.server.prompts.mixed import plain_prompt
from llmserve.server.refusals import FieldError
from llmserve.server.request_notes import notes
from llmserve.server.services import Services
from llmserve.server.trust.tenants import current_tenant
from llmserve.server.web.endpoint import Content, Endpoint
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.headers import answer_headers
from llmserve.server.web.model_errors import MODEL_ERRORS
from llmserve.server.web.token_kinds import Prompts

_AS_IT_IS, _EUCLIDEAN = -1, 2

_SMALL = 1 << 14
"""Up to this many values are rendered at once; more are rendered beside the event loop."""

_EXAMPLE = {
    "object": "list",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.6, -0.8]}],
    "model": "bge-small-en-v1.5",
    "usage": {"prompt_tokens": 6, "total_tokens": 6},
}

_EMBEDDING = Endpoint(
    path="/embedding",
    method="POST",
    dialect=OPENAI,
    operation_id="embedding",
    summary="Vectors of texts, in llama-server's shape",
    description="The request and the answer are llama-server's; `/v1/embeddings` has OpenAI's shape.",
    body=EmbeddingRequest,
    responses={
        200: Content(
            "The vectors.",
            {
                "application/json": {
                    "schema": {"type": "array", "items": {"type": "object"}},
                    "examples": {"answer": {"value": [{"index": 0, "embedding": [[0.6, -0.8]]}]}},
                }
            },
        ),
    },
    errors=MODEL_ERRORS,
)


class EmbeddingsApi:
    """The routes over the shared services."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @Endpoint(
        path="/v1/embeddings",
        method="POST",
        dialect=OPENAI,
        operation_id="createEmbedding",
        summary="Vectors of texts",
        description=(
            "The vectors have length 1. An input that is longer than the model's context length is refused, "
            "and nothing is cut off. Inputs of all requests are computed together."
        ),
        body=EmbeddingsRequest,
        responses=answered("The vectors, in the order of the inputs.", _EXAMPLE),
        errors=MODEL_ERRORS,
    )
    async def embeddings(self, exchange: Exchange) -> None:
        """`POST /v1/embeddings`."""
        parsed = await exchange.read(EmbeddingsRequest)
        request = parsed.value
        async with self._services.on_demand.use_embedder(request.model) as used:
            embeddings = await self._embed(used.embedder, request.input, request.dimensions)
            vectors = await _rendered(embeddings, as_base64=request.encoding_format == "base64")
            answer = convert.openai_answer(used.entry.id, vectors, embeddings.total_tokens)
        await exchange.send_json(answer, headers=answer_headers(parsed.unknown))

    @_EMBEDDING
    @replace(_EMBEDDING, path="/embeddings", operation_id="embeddings")
    async def embedding(self, exchange: Exchange) -> None:
        """`POST /embedding`."""
        parsed = await exchange.read(EmbeddingRequest)
        request = parsed.value
        inputs = request.input if request.content is None else request.content
        if inputs is None:
            raise FieldError("content", "is required")
        if request.embd_normalize not in (_AS_IT_IS, _EUCLIDEAN):
            raise FieldError(
                "embd_normalize", f"must be {_AS_IT_IS} or {_EUCLIDEAN}, got {request.embd_normalize}"
            )
        normalize = request.embd_normalize == _EUCLIDEAN
        async with self._services.on_demand.use_embedder(request.model) as used:
            embeddings = await self._embed(used.embedder, inputs, normalize=normalize)
            answer = convert.llama_server_answer(await _rendered(embeddings))
        await exchange.send_json(answer, headers=answer_headers(parsed.unknown))

    async def _embed(
        self, embedder: Embedder, inputs: Prompts, dimensions: int | None = None, *, normalize: bool = True
    ) -> Embeddings:
        """The vectors.

        Raises:
            RequestError: An input cannot be computed.
            ServerStoppingError: The server stops.
        """
        plain = [await plain_prompt(embedder, given) for given in inputs]
        work = embedder.embed(plain, dimensions=dimensions, normalize=normalize, tenant=current_tenant())
        embeddings = await self._services.generation.until_stop(work)
        notes().prompt_tokens = embeddings.total_tokens
        return embeddings


async def _rendered(embeddings: Embeddings, *, as_base64: bool = False) -> Sequence[object]:
    """Each vector as the answer shows it."""

    def render() -> Sequence[Any]:
        if as_base64:
            return convert.base64_vectors(embeddings)
        return convert.fragments(embeddings.json_vectors())

    if len(embeddings) * embeddings.dimensions <= _SMALL:
        return render()
    return await asyncio.to_thread(render)
