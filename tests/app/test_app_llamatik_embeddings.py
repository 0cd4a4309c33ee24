"""Llamatik's routes of embeddings: a model of their own, beside the one that generates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from serving import Llamatik, Server, post, serve_in_process

INIT, EMBED = "/v1/embeddings/init", "/v1/embeddings/embed"


@pytest.fixture
def running(tiny_model: Path, tmp_path: Path) -> Iterator[Server]:
    with serve_in_process(tmp_path, tiny_model) as running:
        yield running


def test_the_vector_is_openais_before_it_is_scaled(running: Server, tiny_models: Path) -> None:
    missing = post(running.port, EMBED, {"input": "trees"})
    assert (missing.status, missing.json) == (409, {"error": "no model is loaded here: call init first"})

    loaded = post(running.port, INIT, {"modelPath": str(tiny_models / "bert-mean.gguf")})
    assert (loaded.status, loaded.json) == (200, {"ok": True})
    answer = post(running.port, EMBED, {"input": "trees, seas!"})
    vector = answer.json["embedding"]
    assert list(answer.json) == ["embedding"]
    bert = str(tiny_models / "bert-mean.gguf")
    other = post(running.port, "/v1/embeddings", {"model": bert, "input": "trees, seas!"})
    length = math.hypot(*vector)
    scaled = [value / length for value in vector]
    assert other.json["data"][0]["embedding"] == pytest.approx(scaled, abs=1e-5)
    assert abs(length - 1) > 1e-3

    empty = post(running.port, EMBED, {"input": ""})
    assert empty.status == 400
    assert "input" in empty.json["error"]


def test_both_models_are_there_until_shutdown(running: Server, tiny_model: Path, tiny_models: Path) -> None:
    generation = Llamatik(running)
    generation.init(tiny_model)
    wrong = post(running.port, INIT, {"modelPath": str(tiny_model)})
    assert wrong.status == 400
    assert "embeddings" in wrong.json["error"]
    assert post(running.port, INIT, {"modelPath": str(tiny_models / "bert-mean.gguf")}).status == 200
    assert generation.whole("generate", prompt="Once", maxTokens=2)["finishReason"] == "length"
    assert post(running.port, EMBED, {"input": "trees"}).status == 200
    generation.ok("shutdown")
    assert post(running.port, EMBED, {"input": "trees"}).status == 409
