"""Models that rank over HTTP: the shapes of Jina, vLLM, llama-server and TEI, the catalogue, refusals."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bert_reference import Bert, joined_pieces
from serving import Answer, Server, get, post, serve_folder
from synthetic import main_file
from synthetic.embedding_models import CONTEXT
from vectors import COMPANY

QUERY = "is the sea deep?"
DOCUMENTS = ["the sea is deep.", "green trees", "", "a cafe and the seas; deeper"]
LONG = "the sea " * CONTEXT


@pytest.fixture(scope="module")
def server(tiny_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("models")
    for name in ("bert-mean.gguf", "rank-bert.gguf", main_file("llama")):
        shutil.copy(tiny_models / name, folder / name)
    with serve_folder(tmp_path_factory.mktemp("server"), folder) as running:
        yield running
        assert "Traceback" not in running.log


@pytest.fixture(scope="module")
def expected() -> list[float]:
    """Raw scores."""
    reference = Bert()
    return [reference.score(joined_pieces(QUERY, document)) for document in DOCUMENTS]


def rerank(server: Server, path: str = "/v1/rerank", **body: Any) -> Answer:
    return post(server.port, path, {"query": QUERY, "documents": DOCUMENTS, "raw_scores": True, **body})


def refusal(answer: Answer) -> tuple[int, str, str | None]:
    error = answer.json["error"]
    return answer.status, error["code"], error["param"]


def best_first(scores: list[float]) -> list[int]:
    return sorted(range(len(scores)), key=lambda index: -scores[index])


@pytest.mark.parametrize("path", ["/v1/rerank", "/rerank", "/v2/rerank", "/v1/reranking", "/reranking"])
def test_results_come_best_first(server: Server, expected: list[float], path: str) -> None:
    made = rerank(server, path, model="rank-bert").json
    num_tokens = sum(len(joined_pieces(QUERY, document)) for document in DOCUMENTS)
    assert made.pop("id").startswith("rerank-")
    results = made.pop("results")
    usage = {"prompt_tokens": num_tokens, "total_tokens": num_tokens}
    assert made == {"object": "list", "model": "rank-bert", "usage": usage}
    assert [set(result) for result in results] == [{"index", "relevance_score"}] * len(DOCUMENTS)
    assert [result["index"] for result in results] == best_first(expected)
    scores = {result["index"]: result["relevance_score"] for result in results}
    assert [scores[index] for index in range(len(DOCUMENTS))] == pytest.approx(expected, abs=COMPANY)


def test_scores_are_from_0_to_1_unless_raw_ones_are_wanted(server: Server, expected: list[float]) -> None:
    results = rerank(server, raw_scores=False).json["results"]
    assert [result["index"] for result in results] == best_first(expected)
    assert all(0 < result["relevance_score"] < 1 for result in results)


def test_what_is_shown_of_documents(server: Server, expected: list[float]) -> None:
    objects = [{"text": document, "id": 5} for document in DOCUMENTS]
    (best,) = rerank(server, documents=objects, top_n=1, return_documents=True).json["results"]
    assert best["document"] == {"text": DOCUMENTS[best["index"]]}
    assert best["index"] == best_first(expected)[0]
    assert len(rerank(server, top_n=100).json["results"]) == len(DOCUMENTS)


def test_the_shape_of_tei(server: Server, expected: list[float]) -> None:
    body = {"query": QUERY, "texts": DOCUMENTS, "raw_scores": True, "truncation_direction": "Right"}
    made = post(server.port, "/rerank", body).json
    assert [result["index"] for result in made] == best_first(expected)
    assert made[0] == {"index": made[0]["index"], "score": pytest.approx(max(expected), abs=COMPANY)}
    shown = post(server.port, "/rerank", {**body, "return_text": True}).json
    assert [result["text"] for result in shown] == [DOCUMENTS[index] for index in best_first(expected)]


def test_scores_of_pairs(server: Server, expected: list[float]) -> None:
    for path in ("/v1/score", "/score"):
        answer = post(server.port, path, {"text_1": QUERY, "text_2": DOCUMENTS, "raw_scores": True}).json
        assert answer["id"].startswith("score-")
        assert (answer["object"], answer["model"]) == ("list", "rank-bert")
        assert [(item["index"], item["object"]) for item in answer["data"]] == [
            (index, "score") for index in range(len(DOCUMENTS))
        ]
        assert [item["score"] for item in answer["data"]] == pytest.approx(expected, abs=COMPANY)
    pairs = {"text_1": [QUERY, DOCUMENTS[1]], "text_2": [DOCUMENTS[1], QUERY], "raw_scores": True}
    one, other = post(server.port, "/v1/score", pairs).json["data"]
    assert one["score"] == pytest.approx(expected[1], abs=COMPANY)
    assert other["score"] == pytest.approx(Bert().score(joined_pieces(DOCUMENTS[1], QUERY)), abs=COMPANY)


def test_documents_that_are_too_long(server: Server) -> None:
    answer = rerank(server, documents=["deep", LONG])
    assert refusal(answer) == (400, "context_length_exceeded", "documents[1]")
    assert str(CONTEXT) in answer.json["error"]["message"]
    texts = {"query": QUERY, "texts": ["deep", LONG]}
    assert refusal(post(server.port, "/rerank", texts)) == (400, "context_length_exceeded", "texts[1]")
    asked = post(server.port, "/v1/rerank", {"query": LONG, "documents": ["deep", "sea"]})
    assert refusal(asked) == (400, "invalid_value", "query")
    asked = post(server.port, "/v1/score", {"text_1": [QUERY, LONG], "text_2": ["deep", "sea"]})
    assert refusal(asked) == (400, "invalid_value", "text_1[1]")
    pair = {"text_1": QUERY, "text_2": LONG}
    assert refusal(post(server.port, "/v1/score", pair)) == (400, "context_length_exceeded", "text_2[0]")
    cut = rerank(server, documents=["deep", LONG], truncate=True).json
    assert cut["usage"]["total_tokens"] == CONTEXT + len(joined_pieces(QUERY, "deep"))


@pytest.mark.parametrize(
    ("body", "status", "code", "param"),
    [
        ({"query": None}, 400, "invalid_value", "query"),
        ({"query": ["a"]}, 400, "invalid_value", "query"),
        ({"documents": None}, 400, "invalid_value", "documents"),
        ({"documents": []}, 400, "invalid_value", "documents"),
        ({"documents": "a"}, 400, "invalid_value", "documents"),
        ({"documents": ["a", 5]}, 400, "invalid_value", "documents[1]"),
        ({"documents": [{"title": "a"}]}, 400, "invalid_value", "documents[0].text"),
        ({"documents": ["a"] * 2049}, 400, "invalid_value", "documents"),
        ({"texts": ["a"]}, 400, "invalid_value", "documents"),
        ({"top_n": 0}, 400, "invalid_value", "top_n"),
        ({"use_activation": False}, 400, "invalid_value", "use_activation"),
        ({"truncate_prompt_tokens": 5}, 400, "invalid_value", "truncate_prompt_tokens"),
        ({"model": "nobody"}, 404, "model_not_found", "model"),
        ({"model": "llama"}, 400, "wrong_model_kind", "model"),
        ({"model": "bert-mean"}, 400, "wrong_model_kind", "model"),
    ],
)
def test_refusals(server: Server, body: dict[str, Any], status: int, code: str, param: str) -> None:
    assert refusal(rerank(server, **body)) == (status, code, param)


def test_pairs_that_do_not_fit_together(server: Server) -> None:
    answer = post(server.port, "/v1/score", {"text_1": ["a", "b"], "text_2": ["c"]})
    assert refusal(answer) == (400, "invalid_value", "text_1")


def test_a_model_that_ranks_does_nothing_else(server: Server) -> None:
    assert rerank(server).status == 200
    for path, body in (("/v1/embeddings", {"input": "a"}), ("/v1/completions", {"prompt": "a"})):
        answer = post(server.port, path, {"model": "rank-bert", **body})
        assert refusal(answer) == (400, "wrong_model_kind", "model")
        assert "/v1/rerank" in answer.json["error"]["message"]
    # Where no model is named, the first one that can do it answers.
    assert len(post(server.port, "/embedding", {"content": "a"}).json) == 1


def test_the_catalogue_knows_what_ranks(server: Server) -> None:
    assert rerank(server).status == 200
    listed = {model["name"]: model for model in get(server.port, "/v1/models").json["models"]}
    assert (listed["rank-bert"]["outputs"], listed["rank-bert"]["dims"]) == (["score"], {})
    (shown,) = (model for model in get(server.port, "/health").json["models"] if model["id"] == "rank-bert")
    assert (shown["state"], shown["kind"]) == ("ready", "reranking")


def test_without_a_model_that_ranks(tiny_models: Path, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    shutil.copy(tiny_models / "bert-mean.gguf", folder)
    with serve_folder(tmp_path, folder) as server:
        answer = rerank(server)
        assert refusal(answer) == (400, "wrong_model_kind", "model")
        assert answer.json["error"]["message"] == "there is no model to rank documents"
