"""What the tests of embedding models compare vectors with, and how closely."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from llmserve import Embeddings

Matrix = npt.NDArray[np.float32]

TOLERANCE = 3e-3
"""To the reference. llama.cpp rounds GELU, and what attention multiplies, to 16 bits: 11 binary digits.
Measured: 8e-4 at most."""

COMPANY = 2e-3
"""To the same input in other company: sums are taken in another order before that rounding. Measured: 5e-4 at
most."""


def matrix(embeddings: Embeddings) -> Matrix:
    """A row for each vector."""
    values = np.frombuffer(embeddings.data, np.float32)
    return values.reshape(len(embeddings), embeddings.dimensions)


def letters(num_tokens: int) -> str:
    """A text that the synthetic BERT reads as `num_tokens`, including the two that are put around it."""
    return " ".join("abcdefgh"[number % 8] for number in range(num_tokens - 2))
