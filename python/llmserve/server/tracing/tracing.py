"""Whether requests are traced, and where the packages for that come from."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from llmserve.server.start_error import StartError
from llmserve.server.tracing.request import RequestEnd, RequestHead

if TYPE_CHECKING:
    from llmserve.server.tracing.spans import Spans


class TracingStartError(StartError):
    """Requests cannot be traced."""


class Tracing:
    """Traces requests between `start` and `stop`, if that is switched on."""

    def __init__(self, *, is_on: bool) -> None:
        self._is_on = is_on
        self._spans: Spans | None = None
        self._close: Callable[[], object] | None = None

    def start(self) -> None:
        """Begins to trace, which starts the thread that exports.

        Raises:
            TracingStartError: A package is missing.
        """
        if not self._is_on or self._spans is not None:
            return
        try:
            from llmserve.server.tracing.provider import connect
            from llmserve.server.tracing.spans import Spans
        except ImportError as error:
            raise TracingStartError(
                f"traces need packages that are not installed ({error.name or error})\n"
                "hint: pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http, "
                "or unset LLMSERVE_TRACES"
            ) from error
        provider, self._close = connect()
        self._spans = Spans(provider)

    async def stop(self) -> None:
        """Ends tracing; what has not been exported yet is."""
        self._spans = None
        if self._close is not None:
            close, self._close = self._close, None
            await asyncio.to_thread(close)

    def request(
        self, head: Callable[[], RequestHead], end: Callable[[], RequestEnd]
    ) -> AbstractContextManager[None]:
        """Serves a request, of which notes are taken, under a span; without one, no function is called."""
        return nullcontext() if self._spans is None else self._spans.request(head(), end)
