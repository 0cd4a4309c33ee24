"""The inputs and the vectors of an embedding model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from llmserve import _core
from llmserve.errors import InputTooLongError, InvalidParameterError

__all__ = ["Embeddings", "Inputs", "fill"]

Inputs: TypeAlias = str | Sequence[str | Sequence[int]]
"""A text, or several inputs, each a text or a list of token ids, which are used as they are."""

# Bytes of texts, or ids, that are handed over at a time; between two pieces the event loop serves others.
_PIECE = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Embeddings:
    """The vectors of some inputs, in their order."""

    data: bytes
    """All vectors, one after the other: 32-bit floats in this machine's byte order, as `numpy.frombuffer`
    reads them."""
    dimensions: int
    """Number of values in one vector."""
    num_tokens: tuple[int, ...]
    """Number of tokens in each input, including those that the vocabulary adds around a text."""

    def __len__(self) -> int:
        """The number of vectors."""
        return len(self.num_tokens)

    @property
    def vectors(self) -> list[list[float]]:
        """The vectors as lists, which are made anew at each call."""
        shape = (len(self), self.dimensions)
        return cast(list[list[float]], memoryview(self.data).cast("f", shape).tolist())

    @property
    def raw_vectors(self) -> list[bytes]:
        """The bytes of each vector."""
        size = 4 * self.dimensions
        return [self.data[start : start + size] for start in range(0, len(self.data), size)]

    def json_vectors(self) -> list[bytes]:
        """Each vector as a JSON array, written without the GIL; numbers are as short as the floats allow."""
        return _core.json_vectors(self.data, self.dimensions)

    @property
    def total_tokens(self) -> int:
        """Number of tokens in all inputs."""
        return sum(self.num_tokens)


_Special: TypeAlias = Literal["control", "plain"]


def fill(
    buffer: _core.InputBuffer,
    inputs: Inputs,
    context_length: int,
    *,
    add_special: bool,
    parse_special: bool,
) -> Iterator[None]:
    """Copies inputs into a buffer, piece by piece.

    Raises:
        InvalidParameterError: One is neither a text nor token ids.
        InputTooLongError: One has more ids than fit; it is not converted, since there may be millions.
    """
    special: _Special = "control" if parse_special else "plain"
    num_copied = 0
    for index, given in enumerate([inputs] if isinstance(inputs, str) else inputs):
        if not isinstance(given, Sized):
            raise _wrong_type(index, given)
        if not isinstance(given, str) and len(given) > context_length:
            raise InputTooLongError(
                f"input[{index}]: {len(given)} tokens exceed the context length of {context_length} tokens",
                prompt_tokens=len(given),
                context_length=context_length,
                index=index,
            )
        buffer.append(given, add_special, special)
        num_copied += len(given)
        if num_copied >= _PIECE:
            num_copied = 0
            yield


def _wrong_type(index: int, given: object) -> InvalidParameterError:
    reason = f"must be a str or a sequence of token ids, got {given!r:.80}"
    return InvalidParameterError(reason, field=f"input[{index}]")
