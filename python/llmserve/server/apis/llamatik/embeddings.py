"""Llamatik's `/v1/embeddings/init` and `/embed`, with a model of their own beside the one that generates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from llmserve.embedder import Embedder
from llmserve.embeddings import Embeddings
from llmserve.server.apis.llamatik.contents import DONE, NO_MODEL, NOT_LOCAL, post, send_ok
from llmserve.server.apis.llamatik.errors import DIALECT
from llmserve.server.apis.llamatik.schema import InitRequest
from llmserve.server.apis.llamatik.state import ChosenModel
from llmserve.server.refusals import ModelKindError
from llmserve.server.request_notes import notes
from llmserve.server.services import Services
from llmserve.server.web.endpoint import Content, json_of
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.field_kinds import unchecked
from llmserve.server.web.fields import Field
from llmserve.server.web.headers import answer_headers

PREFIX = "/v1/embeddings"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedRequest:
    """The text."""

    input: Annotated[str, Field("The text; it is not cut.", example="What is Llamatik?", non_empty=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedAnswer:
    """The vector."""

    embedding: Annotated[
        object,
        Field(
            "The vector as the model gives it, not scaled to length 1.",
            kind=unchecked({"type": "array", "items": {"type": "number"}}),
            example=[0.6, -0.8],
        ),
    ]


class EmbeddingRoutes:
    """The routes over the shared services."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.model = ChosenModel(services.registry, f"{DIALECT} embeddings", "embedding")

    @post(
        path=f"{PREFIX}/init",
        operation_id="initEmbeddings",
        summary="Load the embedding model",
        description=(
            "Loads a GGUF model with the server's own load options and makes it the one of "
            f"`{PREFIX}/embed`; the one that generates stays. Otherwise like `/v1/generation/init`."
        ),
        body=InitRequest,
        responses=DONE,
        errors={
            400: "The path is outside the folder, or the model fails to load or gives no embeddings.",
            403: NOT_LOCAL,
            409: "Another model is being loaded.",
        },
    )
    async def init(self, exchange: Exchange) -> None:
        """`POST /v1/embeddings/init`."""
        parsed = await exchange.read(InitRequest)
        path = self._services.models_folder.admit(
            parsed.value.model_path, "modelPath", exchange.request.scope
        )
        await self.model.init(path, lambda: self._services.registry.default_config)
        await send_ok(exchange, parsed.unknown)

    @post(
        path=f"{PREFIX}/embed",
        operation_id="embedText",
        summary="The vector of a text",
        description="A text that is longer than the model's context length is refused.",
        body=EmbedRequest,
        responses={200: Content("The vector.", json_of(EmbedAnswer))},
        errors={400: "The text is empty or too long.", 409: NO_MODEL},
    )
    async def embed(self, exchange: Exchange) -> None:
        """`POST /v1/embeddings/embed`."""
        parsed = await exchange.read(EmbedRequest)
        model = self.model.model()
        with self._services.registry.use_handle(model) as handle:
            if not isinstance(handle, Embedder):
                raise ModelKindError("embedding", model.kind)
            notes().model = model.id
            embeddings = await self._embed(handle, parsed.value.input)
            answer = {"embedding": embeddings.vectors[0]}
        await exchange.send_json(answer, headers=answer_headers(parsed.unknown))

    async def _embed(self, embedder: Embedder, text: str) -> Embeddings:
        embeddings = await self._services.generation.until_stop(embedder.embed(text, normalize=False))
        notes().prompt_tokens = embeddings.total_tokens
        return embeddings
