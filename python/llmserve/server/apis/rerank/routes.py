"""`/v1/rerank` and its other names, and `/v1/score`."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llmserve.embedder import Embedder
from llmserve.errors import InputTooLongError
from llmserve.ranking import Scores
from llmserve.server.apis.rerank import convert
from llmserve.server.apis.rerank.schema import RerankRequest, ScoreRequest, ScoringFields
from llmserve.server.error_shapes.openai import OPENAI
from llmserve.server.refusals import FieldError
from llmserve.server.request_notes import notes
from llmserve.server.services import Services
from llmserve.server.trust.tenants import current_tenant
from llmserve.server.web.endpoint import Content, Endpoint, Route, routes_of
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.headers import answer_headers
from llmserve.server.web.model_errors import MODEL_ERRORS

_ERRORS = {**MODEL_ERRORS, 400: "A pair is over the context length, or the model does not rank."}
_USAGE = {"prompt_tokens": 21, "total_tokens": 21}
_RANKED = {
    "id": "rerank-0f0c5b1e",
    "object": "list",
    "model": "bge-reranker-v2-m3",
    "results": [{"index": 0, "relevance_score": 0.98}, {"index": 1, "relevance_score": 0.04}],
    "usage": _USAGE,
}
_SCORED = {
    "id": "score-0f0c5b1e",
    "object": "list",
    "created": 1764547200,
    "model": "bge-reranker-v2-m3",
    "data": [{"index": 0, "object": "score", "score": 0.98}, {"index": 1, "object": "score", "score": 0.04}],
    "usage": _USAGE,
}


def _answered(
    description: str, schema: Mapping[str, Any], examples: Mapping[str, Any]
) -> Mapping[int, Content]:
    shown = {name: {"value": value} for name, value in examples.items()}
    return {200: Content(description, {"application/json": {"schema": schema, "examples": shown}})}


_RERANK = Endpoint(
    path="/v1/rerank",
    method="POST",
    dialect=OPENAI,
    operation_id="rerank",
    summary="Documents, ranked by a query",
    description=(
        "The request and the answer are those of Jina, vLLM and llama-server; with `texts`, those of TEI. "
        "The best document comes first. Pairs of all requests are computed together."
    ),
    body=RerankRequest,
    responses=_answered(
        "The results, best first.",
        {"type": ["object", "array"]},
        {"documents": _RANKED, "texts": [{"index": 0, "score": 0.98}, {"index": 1, "score": 0.04}]},
    ),
    errors=_ERRORS,
)
_SCORE = Endpoint(
    path="/v1/score",
    method="POST",
    dialect=OPENAI,
    operation_id="score",
    summary="Scores of pairs of texts",
    description="vLLM's: one query with each document, or pairs with queries of their own.",
    body=ScoreRequest,
    responses=_answered("The scores, in the order of the pairs.", {"type": "object"}, {"answer": _SCORED}),
    errors=_ERRORS,
)


@dataclass(frozen=True, slots=True)
class _Names:
    """What the texts are called in a request."""

    documents: str
    query: Callable[[int], str]
    """By the position of the pair."""


async def _check_query(embedder: Embedder, query: str, field: str) -> None:
    """Refuses a query that leaves no room for a document, of which a pair takes a token at least."""
    limit, num_tokens = embedder.info.context_length, len(await embedder.tokenize(query))
    if num_tokens >= limit:
        raise FieldError(field, f"must have less than {limit} tokens, got {num_tokens}", limit=limit - 1)


class RerankApi:
    """The routes over the shared services."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @_RERANK
    @replace(_RERANK, path="/rerank", operation_id="rerankWithoutVersion")
    @replace(_RERANK, path="/v2/rerank", operation_id="rerankVersion2")
    @replace(_RERANK, path="/v1/reranking", operation_id="reranking")
    @replace(_RERANK, path="/reranking", operation_id="rerankingWithoutVersion")
    async def rerank(self, exchange: Exchange) -> None:
        """`POST /v1/rerank`."""
        parsed = await exchange.read(RerankRequest)
        request = parsed.value
        if (request.documents is None) == (request.texts is None):
            raise FieldError(
                "documents", "is required" if request.texts is None else "is texts, too: give one"
            )
        documents = request.documents or request.texts or ()
        field = "documents" if request.texts is None else "texts"
        pairs = [(request.query, document) for document in documents]
        model_id, scores = await self._scores(request, pairs, _Names(field, lambda index: "query"))
        shown = documents if request.return_documents or request.return_text else None
        answer: object
        if request.texts is None:
            request_id = f"rerank-{secrets.token_hex(12)}"
            answer = convert.rerank_answer(request_id, model_id, scores, request.top_n, shown)
        else:
            answer = convert.tei_answer(scores, request.top_n, shown)
        await exchange.send_json(answer, headers=answer_headers(parsed.unknown))

    @_SCORE
    @replace(_SCORE, path="/score", operation_id="scoreWithoutVersion")
    async def score(self, exchange: Exchange) -> None:
        """`POST /v1/score`."""
        parsed = await exchange.read(ScoreRequest)
        request = parsed.value
        is_one = len(request.text_1) == 1
        names = _Names("text_2", lambda index: "text_1" if is_one else f"text_1[{index}]")
        model_id, scores = await self._scores(request, request.pairs, names)
        request_id = f"score-{secrets.token_hex(12)}"
        answer = convert.score_answer(request_id, model_id, scores, int(time.time()))
        await exchange.send_json(answer, headers=answer_headers(parsed.unknown))

    async def _scores(
        self, request: ScoringFields, pairs: Sequence[tuple[str, str]], names: _Names
    ) -> tuple[str, Scores]:
        """The model's id and the scores.

        Raises:
            RequestError: A pair cannot be computed.
            FieldError: A query is too long for any document.
            ServerStoppingError: The server stops.
        """
        on_demand = self._services.on_demand
        async with on_demand.use_embedder(request.model, "reranking") as used:
            work = used.embedder.score(
                pairs,
                raw_scores=request.raw_scores,
                truncate=request.truncate,
                tenant=current_tenant(),
            )
            try:
                scores = await self._services.generation.until_stop(work)
            except InputTooLongError as error:
                await _check_query(used.embedder, pairs[error.index][0], names.query(error.index))
                raise error.named(names.documents) from None
            notes().prompt_tokens = scores.total_tokens
            return used.entry.id, scores


def routes(services: Services) -> list[Route]:
    """Everything that the dialect serves."""
    return routes_of(RerankApi(services))
