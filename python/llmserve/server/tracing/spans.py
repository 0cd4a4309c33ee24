"""Spans of requests: one for each, and below it those of the queue, the prefill and the decoding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode

from llmserve import __version__
from llmserve.server.request_notes import RequestNotes, TimedOutput, notes
from llmserve.server.tracing.request import Attributes, RequestEnd, RequestHead

# Ours and not OpenTelemetry's, which must be reset in the context that set it: a stream that is left may end
# in another one.
_current: ContextVar[Span | None] = ContextVar("llmserve_span", default=None)


class Spans:
    """Writes the spans of requests. They have no text of a prompt or an answer."""

    def __init__(self, provider: trace.TracerProvider) -> None:
        self._tracer = provider.get_tracer("llmserve", __version__)

    @contextmanager
    def request(self, head: RequestHead, end: Callable[[], RequestEnd]) -> Iterator[None]:
        """Serves a request under a span."""
        taken = notes()
        span = self._tracer.start_span(
            head.name,
            context=_parent(head),
            kind=SpanKind.SERVER if head.is_remote else SpanKind.INTERNAL,
            attributes=head.attributes,
        )
        if span.get_span_context().is_valid:
            taken.trace_id = trace.format_trace_id(span.get_span_context().trace_id)
        _current.set(span)
        try:
            yield
        finally:
            _current.set(None)
            if span.is_recording():
                self._finish(span, taken, end())
            span.end()

    def _finish(self, span: Span, taken: RequestNotes, end: RequestEnd) -> None:
        span.set_attributes({**end.attributes, **_generation(taken)})
        error = end.error or (taken.error if "error" in taken.finish_reasons else "")
        if error:
            span.set_attribute("error.type", error)
            span.set_status(StatusCode.ERROR)
        for index, output in enumerate(taken.outputs):
            attributes = {"llmserve.output.index": index} if len(taken.outputs) > 1 else {}
            self._phases(span, output, attributes)

    def _phases(self, parent: Span, output: TimedOutput, attributes: Attributes) -> None:
        context = trace.set_span_in_context(parent)
        timings, begin = output.timings, output.submitted_ns
        for name, seconds in (
            ("queue", timings.queue_s),
            ("prefill", timings.prefill_s),
            ("decode", timings.decode_s),
        ):
            end = begin + round(seconds * 1e9)
            if end > begin:
                span = self._tracer.start_span(name, context, attributes=attributes, start_time=begin)
                span.end(end)
            begin = end


def _parent(head: RequestHead) -> Context | None:
    """Where a request comes from: one of ours, the program around us, or a client."""
    if not head.is_remote and (own := _current.get()) is not None:
        return trace.set_span_in_context(own)
    if trace.get_current_span().get_span_context().is_valid:
        return None  # the current one
    return propagate.extract(head.headers)


def _generation(taken: RequestNotes) -> Attributes:
    """The attributes of what a model did, if one did something."""
    if not taken.model:
        return {}
    found: dict[str, str | int | Sequence[str]] = {
        "gen_ai.provider.name": "llmserve",
        "gen_ai.request.model": taken.model,
        "gen_ai.response.model": taken.model,
    }
    if taken.operation:
        found["gen_ai.operation.name"] = taken.operation
    if taken.prompt_tokens:
        found["gen_ai.usage.input_tokens"] = taken.prompt_tokens
    if taken.finish_reasons:
        found["gen_ai.usage.cache_read.input_tokens"] = taken.cached_tokens
        found["gen_ai.usage.output_tokens"] = taken.completion_tokens
        found["gen_ai.response.finish_reasons"] = taken.finish_reasons
    return found
