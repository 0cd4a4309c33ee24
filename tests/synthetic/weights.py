"""Random weights that come out bit for bit the same with every numpy and on every machine."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]

_MANTISSA_BITS = 24


class Weights:
    """Draws tensors in order from one seed.

    Only raw generator bits and multiplications are used: numpy promises that the bits never change, which
    it does not for its distributions, and products are exact where logarithms differ between machines.
    """

    def __init__(self, seed: int) -> None:
        """Starts the stream of `seed`."""
        self._bits = np.random.PCG64(seed)

    def uniform(self, *shape: int, std: float = 1.0) -> Array:
        """Numbers spread evenly around zero with the standard deviation `std`; shape as in numpy."""
        raw = self._bits.random_raw(math.prod(shape)) >> np.uint64(64 - _MANTISSA_BITS)
        unit = raw.astype(np.float64) / (1 << _MANTISSA_BITS)
        spread = std * math.sqrt(12.0)
        values: Array = ((unit - 0.5) * spread).astype(np.float32)
        return values.reshape(shape)

    def linear(self, rows: int, columns: int, gain: float = 1.0) -> Array:
        """A matrix that maps `columns` inputs of size 1 to `rows` outputs of size `gain`."""
        return self.uniform(rows, columns, std=gain / math.sqrt(columns))

    @staticmethod
    def ones(size: int) -> Array:
        """The weight of a norm that changes nothing more."""
        return np.ones(size, dtype=np.float32)
