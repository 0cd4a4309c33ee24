"""BERT as its paper has it, in numpy: what the vectors of the synthetic models must be.

Written from the paper (Devlin et al. 2018, https://arxiv.org/abs/1810.04805) and the WordPiece rules of its
code (lower case, accents off, punctuation apart, longest piece first), not from llama.cpp.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from synthetic.embedding_models import (
    BEGINNINGS,
    CLS,
    EPSILON,
    NUM_HEADS,
    NUM_LAYERS,
    SEP,
    TOKENS,
    UNKNOWN,
    WIDTH,
    bert_tensors,
    rank_tensors,
)

Vector = npt.NDArray[np.float64]


class Bert:
    """The model in double precision."""

    def __init__(self) -> None:
        tensors = bert_tensors() | rank_tensors()
        self._tensors = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}

    def hidden(self, tokens: Sequence[int]) -> Vector:
        """The last hidden states, a row a token."""
        ids = list(tokens)
        state = self._weight("token_embd")[ids]
        state = state + self._weight("position_embd")[: len(ids)] + self._weight("token_types")[0]
        state = self._norm("token_embd_norm", state)
        for layer in range(NUM_LAYERS):
            block = f"blk.{layer}"
            state = self._norm(f"{block}.attn_output_norm", state + self._attention(block, state))
            inner = _gelu(self._linear(f"{block}.ffn_up", state))
            state = self._norm(f"{block}.layer_output_norm", state + self._linear(f"{block}.ffn_down", inner))
        return state

    def mean(self, tokens: Sequence[int]) -> Vector:
        """The normalised mean of the hidden states."""
        return _normalised(self.hidden(tokens).mean(axis=0))

    def cls(self, tokens: Sequence[int]) -> Vector:
        """The normalised hidden state of the first token."""
        return _normalised(self.hidden(tokens)[0])

    def score(self, tokens: Sequence[int]) -> float:
        """What the head for ranking gives for a pair, with RoBERTa's dense layer."""
        pooled = np.tanh(self._linear("cls", self.hidden(tokens)[:1]))
        return float(self._linear("cls.output", pooled)[0, 0])

    def _attention(self, block: str, state: Vector) -> Vector:
        size = WIDTH // NUM_HEADS
        query, key, value = (self._linear(f"{block}.attn_{name}", state) for name in "qkv")
        heads = []
        for head in range(NUM_HEADS):
            part = slice(head * size, (head + 1) * size)
            scores = query[:, part] @ key[:, part].T / math.sqrt(size)
            scores = np.exp(scores - scores.max(axis=1, keepdims=True))
            heads.append(scores / scores.sum(axis=1, keepdims=True) @ value[:, part])
        return self._linear(f"{block}.attn_output", np.concatenate(heads, axis=1))

    def _linear(self, name: str, state: Vector) -> Vector:
        result: Vector = state @ self._weight(name).T + self._tensors[f"{name}.bias"]
        return result

    def _norm(self, name: str, state: Vector) -> Vector:
        centred = state - state.mean(axis=1, keepdims=True)
        scaled = centred / np.sqrt(np.square(centred).mean(axis=1, keepdims=True) + EPSILON)
        result: Vector = scaled * self._weight(name) + self._tensors[f"{name}.bias"]
        return result

    def _weight(self, name: str) -> Vector:
        return self._tensors[f"{name}.weight"]


def _gelu(values: Vector) -> Vector:
    """The form with a tangent, which is what BERT's code came with; the exact one differs by 1e-3 at most."""
    result: Vector = 0.5 * values * (1 + np.tanh(math.sqrt(2 / math.pi) * (values + 0.044715 * values**3)))
    return result


def _normalised(vector: Vector) -> Vector:
    result: Vector = vector / np.linalg.norm(vector)
    return result


def word_pieces(text: str) -> list[int]:
    """The token ids of a text, with `[CLS]` and `[SEP]`."""
    pieces = [CLS]
    for word in _words(text):
        pieces += _pieces_of(word)
    return [TOKENS.index(piece) for piece in [*pieces, SEP]]


def joined_pieces(query: str, document: str) -> list[int]:
    """The token ids of a pair, as llama-server joins it for such a vocabulary: without an end."""
    return [*word_pieces(query), *word_pieces(document)[1:-1]]


def _words(text: str) -> list[str]:
    words = [""]
    for letter in unicodedata.normalize("NFD", text.lower()):
        if unicodedata.category(letter) == "Mn":
            continue
        if letter.isspace():
            words.append("")
        elif unicodedata.category(letter).startswith("P"):
            words += [letter, ""]
        else:
            words[-1] += letter
    return [word for word in words if word]


def _pieces_of(word: str) -> list[str]:
    pieces: list[str] = []
    rest = f"▁{word}"
    while rest:
        known = [rest[:end] for end in range(len(rest), 0, -1) if rest[:end] in TOKENS]
        if not known or (not pieces and known[0] not in BEGINNINGS):
            return [UNKNOWN]
        pieces.append(known[0])
        rest = rest[len(known[0]) :]
    return pieces
