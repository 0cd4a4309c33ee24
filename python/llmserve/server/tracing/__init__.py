"""Traces of requests by OpenTelemetry, whose packages are imported only where they are switched on."""

from llmserve.server.tracing.request import RequestEnd, RequestHead
from llmserve.server.tracing.tracing import Tracing, TracingStartError

__all__ = ["RequestEnd", "RequestHead", "Tracing", "TracingStartError"]
