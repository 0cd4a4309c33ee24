"""A histogram of values."""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from llmserve.server.metrics.exposition import Labels, label_text


class Histogram:
    """Counts values by the first bound that they do not exceed."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Counts a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    @property
    def sum(self) -> float:
        """The sum of the values."""
        return self._sum

    def lines(self, name: str, labels: Labels) -> Iterator[str]:
        """The samples of the histogram under a name."""
        buckets, total, count = _heads(name, self._bounds, tuple(labels.items()))
        num_values = 0
        for head, num_in_bucket in zip(buckets, self._counts, strict=True):
            num_values += num_in_bucket
            yield f"{head}{num_values}"
        yield f"{total}{self._sum!r}"
        yield f"{count}{num_values}"


@functools.cache
def _heads(
    name: str, bounds: tuple[float, ...], labels: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, ...], str, str]:
    """The names and labels of buckets, sum and count: the same in every scrape."""
    shown = dict(labels)
    ends = (*(f"{bound:g}" for bound in bounds), "+Inf")
    buckets = tuple(f"{name}_bucket{label_text({**shown, 'le': end})} " for end in ends)
    return buckets, f"{name}_sum{label_text(shown)} ", f"{name}_count{label_text(shown)} "
