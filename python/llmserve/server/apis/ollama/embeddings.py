"""`/api/embed` and the older `/api/embeddings`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import orjson

from llmserve.embedder import Embedder
from llmserve.embeddings import Embeddings
from llmserve.errors import InputTooLongError
from llmserve.server.apis.ollama.answers import Clock
from llmserve.server.apis.ollama.contents import answered
from llmserve.server.apis.ollama.embeddings_schema import OllamaEmbeddingsRequest, OllamaEmbedRequest
from llmserve.server.apis.ollama.models import OllamaModels
from llmserve.server.error_shapes.ollama import OLLAMA
from llmserve.server.request_notes import notes
from llmserve.server.services import Services
from llmserve.server.trust.tenants import current_tenant
from llmserve.server.web.endpoint import Endpoint
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.headers import answer_headers
from llmserve.server.web.model_errors import MODEL_ERRORS

_Inputs = Sequence[str | list[int]]


class EmbeddingsApi:
    """The routes over the shared services."""

    def __init__(self, services: Services, models: OllamaModels) -> None:
        self._services = services
        self._models = models

    @Endpoint(
        path="/api/embed",
        method="POST",
        dialect=OLLAMA,
        operation_id="ollamaEmbed",
        summary="Vectors of texts, as Ollama gives them",
        description="The vectors have length 1. A text that is longer than the context length is cut off.",
        body=OllamaEmbedRequest,
        responses=answered(
            {"model": "bge-small:latest", "embeddings": [[0.6, -0.8]], "prompt_eval_count": 6}
        ),
        errors=MODEL_ERRORS,
    )
    async def embed(self, exchange: Exchange) -> None:
        """`POST /api/embed`."""
        clock = Clock()
        parsed = await exchange.read(OllamaEmbedRequest)
        request = parsed.value
        async with self._models.use_embedder(request.model, request.keep_alive) as used:
            clock.load_ended()
            vectors: list[orjson.Fragment] = []
            num_tokens = 0
            if request.input not in ((), ("",)):
                embeddings = await self._embed(
                    used.embedder, request.input, dimensions=request.dimensions, truncate=request.truncate
                )
                vectors, num_tokens = await _rendered(embeddings), embeddings.total_tokens
            answer = {
                "model": request.model,
                "embeddings": vectors,
                **clock.durations(),
                "prompt_eval_count": num_tokens,
            }
        await exchange.send_json(answer, headers=answer_headers(parsed.unknown))

    @Endpoint(
        path="/api/embeddings",
        method="POST",
        dialect=OLLAMA,
        operation_id="ollamaEmbeddings",
        summary="The vector of a text, as Ollama's older route gives it",
        description="The vector is not scaled to length 1. `/api/embed` supersedes this route.",
        body=OllamaEmbeddingsRequest,
        responses=answered({"embedding": [0.6, -0.8]}),
        errors=MODEL_ERRORS,
    )
    async def embeddings(self, exchange: Exchange) -> None:
        """`POST /api/embeddings`."""
        parsed = await exchange.read(OllamaEmbeddingsRequest)
        request = parsed.value
        async with self._models.use_embedder(request.model, request.keep_alive) as used:
            vector: object = []
            if request.prompt:
                made = await self._embed(used.embedder, (request.prompt,), truncate=True, normalize=False)
                (vector,) = await _rendered(made)
        await exchange.send_json({"embedding": vector}, headers=answer_headers(parsed.unknown))

    async def _embed(
        self,
        embedder: Embedder,
        inputs: _Inputs,
        *,
        truncate: bool,
        dimensions: int | None = None,
        normalize: bool = True,
    ) -> Embeddings:
        """The vectors. Raises what `Embedder.embed` and `GenerationService.until_stop` raise."""

        async def work(given: _Inputs) -> Embeddings:
            return await self._services.generation.until_stop(
                embedder.embed(given, dimensions=dimensions, normalize=normalize, tenant=current_tenant())
            )

        try:
            made = await work(inputs)
        except InputTooLongError:
            if not truncate:
                raise
            made = await work([await _shortened(embedder, given) for given in inputs])
        notes().prompt_tokens = made.total_tokens
        return made


async def _shortened(embedder: Embedder, given: str | list[int]) -> str | list[int]:
    """The input if it fits, else its first tokens between those that the vocabulary adds around a text."""
    limit = embedder.info.context_length
    if isinstance(given, list) or len(ids := await embedder.tokenize(given)) <= limit:
        return given
    num_plain = len(await embedder.tokenize(given, add_special=False))
    num_before = 1 if len(ids) > num_plain else 0
    num_after = len(ids) - num_plain - num_before
    return [*ids[: limit - num_after], *(ids[-num_after:] if num_after else [])]


async def _rendered(embeddings: Embeddings) -> list[orjson.Fragment]:
    """The vectors as JSON, written beside the event loop."""
    return [orjson.Fragment(vector) for vector in await asyncio.to_thread(embeddings.json_vectors)]
