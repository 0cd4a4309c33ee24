"""Spans as a server in this process made them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from serving.client import wait_until


class Spans:
    """What a provider of OpenTelemetry's has recorded."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def ended(self, name: str) -> ReadableSpan:
        """The only span of a name since `forget`. It ends after its answer has been read."""
        wait_until(lambda: name in self.names())
        (found,) = [span for span in self.all() if span.name == name]
        return found

    def names(self) -> list[str]:
        return [span.name for span in self.all()]

    def all(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    def below(self, parent: ReadableSpan) -> list[ReadableSpan]:
        """The spans below another one, by their beginnings."""
        found = [span for span in self.all() if span.parent and span.parent.span_id == id_of(parent)]
        return sorted(found, key=lambda span: span.start_time or 0)

    def forget(self) -> None:
        self._exporter.clear()


@contextmanager
def recording() -> Iterator[Spans]:
    """Stands for a program that has set a provider for itself."""
    spans = Spans()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace, "get_tracer_provider", lambda: spans.provider)
        yield spans


def id_of(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.span_id


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})
