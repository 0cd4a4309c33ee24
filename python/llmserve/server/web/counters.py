"""Counts HTTP requests by route, method and status, and errors by code."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from llmserve.server.web.answer import Answer

_METHODS = ("GET", "HEAD", "POST", "OPTIONS")


class HttpCounters:
    """Counters of the process; they only grow, but for ``num_open``."""

    def __init__(self) -> None:
        self.num_open = 0
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.seconds: defaultdict[str, float] = defaultdict(float)
        """Time from a request's head to the end of its answer, by route."""
        self.late_errors: Counter[int] = Counter()
        """Errors of answers that had begun, by the status that they would have had."""
        self.errors: Counter[str] = Counter()
        """Requests that were refused or failed, by the error's code."""

    @contextmanager
    def request(self, route: str, method: str, answer: Answer) -> Iterator[None]:
        """Counts one request. Unknown methods share one label."""
        started = time.monotonic()
        self.num_open += 1
        try:
            yield
        finally:
            self.num_open -= 1
            self.requests[route, method if method in _METHODS else "other", answer.status] += 1
            self.seconds[route] += time.monotonic() - started
