"""Answers a question from the passages of a text file: retrieval-augmented generation (RAG).

    python retrieval.py model.gguf notes.txt "Which port does the printer use?" [embedding-model.gguf]

Passages are separated by blank lines. Without an embedding model, the model itself embeds them, by the mean
of its states, which is good enough to try it; a model made for embeddings (bge, nomic, e5) finds far better.
It needs `pip install llmserve numpy`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from llmserve.sync import SyncEmbedder, SyncEngine

NUM_PASSAGES = 2
# The pooling type of GGUF files for the mean of all tokens.
MEAN = 1


def embedder_of(path: str, is_made_for_it: bool) -> SyncEmbedder:
    """Loads an embedding model, or any other as one."""
    if is_made_for_it:
        return SyncEmbedder.load(path)
    with SyncEngine.load(path, context_length=16, max_sequences=1) as engine:
        architecture = engine.info.architecture
    return SyncEmbedder.load(path, metadata_overrides={f"{architecture}.pooling_type": MEAN})


def nearest(embedder: SyncEmbedder, passages: list[str], question: str) -> list[str]:
    """The passages that are closest in meaning, best first."""
    embeddings = embedder.embed([question, *passages])
    vectors = np.frombuffer(embeddings.data, np.float32).reshape(len(embeddings), -1)
    # What all texts have in common tells nothing about any.
    vectors = vectors - vectors[1:].mean(axis=0)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    order = np.argsort(-(vectors[1:] @ vectors[0]))
    return [passages[index] for index in order[:NUM_PASSAGES]]


def main(model: str, text: str, question: str, embedding_model: str | None = None) -> None:
    """Prints the passages that were found, and the answer."""
    passages = [passage.strip() for passage in Path(text).read_text().split("\n\n") if passage.strip()]
    with embedder_of(embedding_model or model, embedding_model is not None) as embedder:
        found = nearest(embedder, passages, question)
    for passage in found:
        print(f"> {passage}")
    messages = [
        {"role": "system", "content": "Answer from these passages only.\n\n" + "\n\n".join(found)},
        {"role": "user", "content": question},
    ]
    with SyncEngine.load(model) as engine:
        print(engine.chat(messages, max_tokens=100, temperature=0).text)


if __name__ == "__main__":
    main(*sys.argv[1:5])
