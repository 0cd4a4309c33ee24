"""A bound on the calls that are being prepared, before the engine's own queue knows of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from llmserve.errors import QueueFullError
from llmserve.server.models import Model
from llmserve.server.trust.tenants import current_tenant
from llmserve.tenant import Tenant


class Admission:
    """Counts the requests of each model whose templates are being rendered and whose tools are checked.

    That costs something, and an engine's queue bounds only what has been submitted. So as many may be
    prepared as may wait there, and as there, each tenant finds its equal share. Whoever renders a template
    for a request holds a place meanwhile.
    """

    def __init__(self) -> None:
        self._preparing: defaultdict[Model, Counter[Tenant]] = defaultdict(Counter)

    @contextmanager
    def place(self, model: Model) -> Iterator[None]:
        """A place for the request that is being served, taken for as long as the context lasts.

        Raises:
            QueueFullError: All places are taken.
        """
        limit = model.config.max_queued_requests
        tenant = current_tenant()
        preparing = self._preparing[model]
        share = max(1, limit // len(preparing.keys() | {tenant}))
        if preparing.total() >= limit and preparing[tenant] >= share:
            raise QueueFullError(f"the queue is full: {limit} requests are being prepared")
        preparing[tenant] += 1
        try:
            yield
        finally:
            preparing[tenant] -= 1
            if not preparing[tenant]:
                del preparing[tenant]
            if not preparing:
                del self._preparing[model]
