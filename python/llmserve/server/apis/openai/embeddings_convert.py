"""Pure functions: vectors -> wire."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterable
from typing import Any

import orjson

from llmserve.embeddings import Embeddings


def base64_vectors(embeddings: Embeddings) -> list[str]:
    """Each vector's floats, little-endian, in base64."""
    return [base64.b64encode(_little_endian(vector)).decode() for vector in embeddings.raw_vectors]


def _little_endian(vector: bytes) -> bytes:
    if sys.byteorder == "little":
        return vector
    return b"".join(vector[start : start + 4][::-1] for start in range(0, len(vector), 4))


def fragments(vectors: Iterable[bytes]) -> list[orjson.Fragment]:
    """Vectors as fragments of JSON."""
    return [orjson.Fragment(vector) for vector in vectors]


def openai_answer(model_id: str, vectors: Iterable[object], num_tokens: int) -> dict[str, Any]:
    """OpenAI's `list`; vectors are fragments or base64."""
    data = [
        {"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": num_tokens, "total_tokens": num_tokens}
    return {"object": "list", "data": data, "model": model_id, "usage": usage}


def llama_server_answer(vectors: Iterable[object]) -> list[dict[str, Any]]:
    """llama-server's array: one vector for each input, in an array of its own."""
    return [{"index": index, "embedding": [vector]} for index, vector in enumerate(vectors)]
