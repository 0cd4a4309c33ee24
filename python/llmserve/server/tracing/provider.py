"""Where spans go: to the program's own provider if it has set one, else to a collector, by OTLP over HTTP."""

from __future__ import annotations

from collections.abc import Callable

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from llmserve import __version__


def connect() -> tuple[trace.TracerProvider, Callable[[], object]]:
    """The provider, and what ends it. OpenTelemetry's own variables (``OTEL_*``) configure it."""
    given = trace.get_tracer_provider()
    if not isinstance(given, trace.ProxyTracerProvider):
        return given, _leave
    named = OTELResourceDetector().detect().attributes
    resource = Resource.create({SERVICE_NAME: "llmserve", SERVICE_VERSION: __version__, **named})
    # Not set as that of the process, which belongs to whoever runs the program.
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider, provider.shutdown


def _leave() -> None:
    """A provider that others have set is ended by them."""
