"""Vectors as values, without a model."""

from __future__ import annotations

import array
import base64
import json
import sys

import pytest

from llmserve import Embeddings
from llmserve.server.apis.openai import embeddings_convert as convert

# Zeros, both ends of the floats, one without a short decimal, and where the notation changes.
VALUES = [0.0, -0.0, 1e-45, -3.4028235e38, 0.1, 1 / 3, 1e-4, 9.99e-5, 123456.0, 1.0]


def embeddings(values: list[float], dimensions: int) -> Embeddings:
    num_vectors = len(values) // dimensions
    return Embeddings(
        data=array.array("f", values).tobytes(), dimensions=dimensions, num_tokens=(3,) * num_vectors
    )


def test_numbers_in_json_are_the_floats_themselves() -> None:
    two = embeddings(VALUES, len(VALUES) // 2)
    read = [json.loads(text) for text in two.json_vectors()]
    assert array.array("f", read[0] + read[1]).tobytes() == two.data
    assert all(len(text) <= 16 * len(VALUES) for text in two.json_vectors())
    assert two.json_vectors()[0].endswith(b",0.1]")


def test_vectors_as_lists_and_bytes() -> None:
    two = embeddings(VALUES, 5)
    assert two.vectors == [array.array("f", VALUES[:5]).tolist(), array.array("f", VALUES[5:]).tolist()]
    assert b"".join(two.raw_vectors) == two.data
    assert (len(two), two.total_tokens) == (2, 6)


@pytest.mark.parametrize("byteorder", ["little", "big"])
def test_base64_is_little_endian_everywhere(byteorder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    floats = array.array("f", VALUES)
    monkeypatch.setattr(sys, "byteorder", byteorder)
    (text,) = convert.base64_vectors(embeddings(VALUES, len(VALUES)))
    unpacked = array.array("f", base64.b64decode(text))
    if byteorder == "big":
        unpacked.byteswap()
    assert unpacked.tobytes() == floats.tobytes()


def test_answers_keep_the_order_of_the_inputs() -> None:
    answer = convert.openai_answer("id", ["a", "b"], 7)
    assert [(item["index"], item["embedding"]) for item in answer["data"]] == [(0, "a"), (1, "b")]
    assert answer["usage"] == {"prompt_tokens": 7, "total_tokens": 7}
    assert convert.llama_server_answer(["a", "b"]) == [
        {"index": 0, "embedding": ["a"]},
        {"index": 1, "embedding": ["b"]},
    ]
