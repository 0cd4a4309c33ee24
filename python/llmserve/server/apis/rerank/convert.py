"""Pure functions: scores -> wire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llmserve.ranking import Scores


def rerank_answer(
    request_id: str, model_id: str, scores: Scores, top_n: int | None, documents: Sequence[str] | None
) -> dict[str, Any]:
    """The best results first, as Jina, vLLM and llama-server have them; with the documents, if given."""
    results = [
        {
            "index": index,
            "relevance_score": scores.values[index],
            **({} if documents is None else {"document": {"text": documents[index]}}),
        }
        for index in scores.ranking[:top_n]
    ]
    return {
        "id": request_id,
        "object": "list",
        "model": model_id,
        "results": results,
        "usage": _usage(scores),
    }


def tei_answer(scores: Scores, top_n: int | None, texts: Sequence[str] | None) -> list[dict[str, Any]]:
    """The best results first, as TEI has them; with the texts, if given."""
    return [
        {
            "index": index,
            "score": scores.values[index],
            **({} if texts is None else {"text": texts[index]}),
        }
        for index in scores.ranking[:top_n]
    ]


def score_answer(request_id: str, model_id: str, scores: Scores, created: int) -> dict[str, Any]:
    """A score for each pair, in their order, as vLLM has them."""
    data = [{"index": index, "object": "score", "score": score} for index, score in enumerate(scores.values)]
    return {
        "id": request_id,
        "object": "list",
        "created": created,
        "model": model_id,
        "data": data,
        "usage": _usage(scores),
    }


def _usage(scores: Scores) -> dict[str, int]:
    return {"prompt_tokens": scores.total_tokens, "total_tokens": scores.total_tokens}
