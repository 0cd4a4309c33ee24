"""Counts gRPC calls by method and status. Works without gRPC's packages: `/metrics` always shows it."""

from __future__ import annotations

from collections import Counter, defaultdict


class RpcCounters:
    """Counters of the process; they only grow, but for `num_open`."""

    def __init__(self) -> None:
        self.num_open = 0
        self.requests: Counter[tuple[str, str]] = Counter()
        """Number of calls by method, such as `proto.LLMServer/Predict`, and name of the status."""
        self.seconds: defaultdict[str, float] = defaultdict(float)
        """Time from a call's head to its status, by method."""
