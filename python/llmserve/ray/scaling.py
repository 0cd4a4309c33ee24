"""How many replicas there should be: as many as compute all requests at once, without a queue."""

from __future__ import annotations

from collections.abc import Iterable

from ray.serve.config import AutoscalingContext


def replicas_for(sequences: float, queued: float, slots: int) -> float:
    """The number of replicas for requests in the replicas and for those that wait in front of them."""
    return (sequences + queued) / slots


class ByQueue:
    """Ray Serve's policy: it applies its own bounds and delays to the number."""

    def __init__(self, slots: int) -> None:
        self._slots = slots

    def __call__(self, ctx: AutoscalingContext) -> tuple[float, dict[str, object]]:
        """The number of replicas that is wanted."""
        metrics = ctx.aggregated_metrics or {}
        sequences: Iterable[float] = metrics.get("sequences", {}).values()
        return replicas_for(sum(sequences), ctx.total_queued_requests or 0.0, self._slots), {}
