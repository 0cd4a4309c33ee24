"""A request's id: that of ``X-Request-ID`` if it is plain, else a new one; sent back, and in the log."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from llmserve.server.web.names import Names

_IDS = Names(128)
_current: ContextVar[str] = ContextVar("llmserve_request_id", default="-")


def current_request_id() -> str:
    """The id of the request that is being served, or ``-`` outside of any."""
    return _current.get()


class RequestIdFilter(logging.Filter):
    """Adds ``request_id`` to log records."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Keeps every record."""
        record.request_id = _current.get()
        return True


@contextmanager
def request_id(given: str | None) -> Iterator[str]:
    """Serves a request under the id that its client gives, if that is plain, else under a new one."""
    chosen = given if given is not None and _IDS.has(given) else uuid.uuid4().hex
    token = _current.set(chosen)
    try:
        yield chosen
    finally:
        _current.reset(token)
