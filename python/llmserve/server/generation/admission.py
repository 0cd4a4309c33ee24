"""A bound on the calls that are being prepared, before the engine's own queue knows of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from llmserve.errors import QueueFullError
from llmserve.server.models import Model


class Admission:
    """Counts the requests of each model whose templates are being rendered and whose tools are checked.

    That costs something, and an engine's queue bounds only what has been submitted. So as many may be
    prepared as may wait there. Whoever renders a template for a request holds a place meanwhile.
    """

    def __init__(self) -> None:
        self._num_preparing: Counter[Model] = Counter()

    @contextmanager
    def place(self, model: Model) -> Iterator[None]:
        """A place, taken for as long as the context lasts.

        Raises:
            QueueFullError: All places are taken.
        """
        limit = model.config.max_queued_requests
        if self._num_preparing[model] >= limit:
            raise QueueFullError(f"the queue is full: {limit} requests are being prepared")
        self._num_preparing[model] += 1
        try:
            yield
        finally:
            self._num_preparing[model] -= 1
            if not self._num_preparing[model]:
                del self._num_preparing[model]
