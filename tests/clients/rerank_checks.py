"""What users of `litellm.rerank` do, by the names of several services. Runs in an environment that has it."""

from __future__ import annotations

import os
from typing import Any

import litellm

from clients.checks import raised, run_checks

litellm.telemetry = False

MODEL = os.environ["MODEL"]
BASE = os.environ["BASE"]
DOCUMENTS = ["the sea is deep.", "green trees", "a cafe and the seas; deeper"]


def rerank(service: str, base: str = BASE, **settings: Any) -> Any:
    return litellm.rerank(
        model=f"{service}/{MODEL}",
        query="is the sea deep?",
        documents=DOCUMENTS,
        api_base=base,
        api_key=os.environ["KEY"],
        num_retries=0,
        **settings,
    )


def ranks(service: str, base: str) -> None:
    whole = rerank(service, base)
    scores = [result["relevance_score"] for result in whole.results]
    assert sorted(result["index"] for result in whole.results) == [0, 1, 2]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score < 1 for score in scores)
    (best,) = rerank(service, base, top_n=1).results
    assert best["index"] == whole.results[0]["index"]


def check_jina() -> None:
    ranks("jina_ai", f"{BASE}/v1/rerank")


def check_vllm() -> None:
    ranks("hosted_vllm", BASE)


def check_cohere() -> None:
    ranks("cohere", BASE)


def check_tei() -> None:
    ranks("huggingface", BASE)


def check_documents_are_returned() -> None:
    (best,) = rerank("jina_ai", f"{BASE}/v1/rerank", top_n=1, return_documents=True).results
    assert best["document"]["text"] == DOCUMENTS[best["index"]]


def check_errors() -> None:
    error = raised(litellm.BadRequestError, lambda: rerank("hosted_vllm", top_n=0))
    assert "top_n" in str(error)


if __name__ == "__main__":
    run_checks(globals())
