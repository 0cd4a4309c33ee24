"""What the server counts and measures for `/metrics`, and the text in which it is written.

Everything here belongs to the event loop's thread, so nothing is locked.
"""

from llmserve.server.metrics.exposition import Labels, Metric, counter, gauge, label_text, metric_lines
from llmserve.server.metrics.histogram import Histogram
from llmserve.server.metrics.requests import Ended, OutputMetrics, RequestMetrics

__all__ = [
    "Ended",
    "Histogram",
    "Labels",
    "Metric",
    "OutputMetrics",
    "RequestMetrics",
    "counter",
    "gauge",
    "label_text",
    "metric_lines",
]
