"""How long requests take and how many tokens they have, by model and dialect."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from llmserve.server.metrics.exposition import Metric
from llmserve.server.metrics.histogram import Histogram
from llmserve.types import FinishReason, Timings, Usage

_SECONDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0),
)
_GAP_SECONDS = (
    *(0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075),
    *(0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.5, 10.0),
)
_TOKENS = tuple(float(digit * 10**power) for power in range(6) for digit in (1, 2, 5))

Kind = str
"""What a histogram is of: its name without `llmserve_`."""

FIRST_TOKEN = "time_to_first_token_seconds"  # noqa: S105 - no password
GAP = "inter_token_latency_seconds"
QUEUE = "queue_time_seconds"
PREFILL = "prefill_time_seconds"
DECODE = "decode_time_seconds"
WHOLE = "e2e_request_latency_seconds"
PROMPT_TOKENS = "request_prompt_tokens"
GENERATION_TOKENS = "request_generation_tokens"

_KINDS: Mapping[Kind, tuple[Sequence[float], str]] = {
    FIRST_TOKEN: (_SECONDS, "Seconds from a request's submission to its first token."),
    GAP: (_GAP_SECONDS, "Seconds between two outputs of a stream; an accepted draft is part of one output."),
    QUEUE: (_SECONDS, "Seconds from a request's submission until it left the queue."),
    PREFILL: (_SECONDS, "Seconds from leaving the queue to the first token."),
    DECODE: (_SECONDS, "Seconds from the first token to the last."),
    WHOLE: (_SECONDS, "Seconds from a request's submission to its last token."),
    PROMPT_TOKENS: (_TOKENS, "Prompt tokens of a request, including cached ones."),
    GENERATION_TOKENS: (_TOKENS, "Tokens that a request generated."),
}

KINDS = tuple(_KINDS)


class Ended(Protocol):
    """How an output ended and what it cost: a `Completion`, or a `TurnEnd` of several."""

    @property
    def finish_reason(self) -> FinishReason:
        """Why it ended."""

    @property
    def usage(self) -> Usage:
        """The counts of its tokens."""

    @property
    def timings(self) -> Timings:
        """Its durations."""


class RequestMetrics:
    """The histograms of all requests. Each output of a request with several counts as one."""

    def __init__(self) -> None:
        self._longest = [0]
        self._series: dict[tuple[str, str], Mapping[Kind, Histogram]] = {}

    def begin(self, model: str, dialect: str) -> OutputMetrics:
        """The measurements of an output that is submitted now."""
        series = self._series.get((model, dialect))
        if series is None:
            series = {kind: Histogram(bounds) for kind, (bounds, _) in _KINDS.items()}
            self._series[model, dialect] = series
        return OutputMetrics(series, self._longest)

    @property
    def longest(self) -> int:
        """The most tokens of prompt and output together that a request had."""
        return self._longest[0]

    def seconds(self, kind: Kind) -> float:
        """The sum of a kind over all requests."""
        return sum(series[kind].sum for series in self._series.values())

    def lines(self, kind: Kind, name: str = "", model_label: str = "model") -> Iterator[str]:
        """The histograms of a kind, under our name or another one."""
        metric = Metric(name or f"llmserve_{kind}", "histogram", _KINDS[kind][1])
        yield from metric.head()
        for (model, dialect), series in self._series.items():
            yield from series[kind].lines(metric.name, {model_label: model, "dialect": dialect})


class OutputMetrics:
    """Measures one output."""

    __slots__ = ("_gaps", "_has_output", "_last", "_longest", "_series", "submitted_ns")

    def __init__(self, series: Mapping[Kind, Histogram], longest: list[int]) -> None:
        """`longest` has the most tokens of any request so far."""
        self._series = series
        self._longest = longest
        self._gaps = series[GAP]
        self._has_output = False
        self._last = time.perf_counter()
        self.submitted_ns = time.time_ns()
        """When it was submitted, in nanoseconds since 1970."""

    def on_output(self) -> None:
        """Takes note of new tokens of a stream. It is called for each step, so it must cost little."""
        now = time.perf_counter()
        gap = now - self._last
        self._last = now
        if self._has_output:
            self._gaps.observe(gap)
        else:
            self._has_output = True
            self._series[FIRST_TOKEN].observe(gap)

    def end(self, ended: Ended | None) -> None:
        """Takes note of the end, unless the output was given up before its end was known."""
        if ended is None:
            return
        series, usage, timings = self._series, ended.usage, ended.timings
        self._longest[0] = max(self._longest[0], usage.total_tokens)
        series[QUEUE].observe(timings.queue_s)
        series[WHOLE].observe(timings.queue_s + timings.prefill_s + timings.decode_s)
        series[PROMPT_TOKENS].observe(usage.prompt_tokens)
        series[GENERATION_TOKENS].observe(usage.completion_tokens)
        if usage.completion_tokens == 0:
            return
        series[PREFILL].observe(timings.prefill_s)
        series[DECODE].observe(timings.decode_s)
        if not self._has_output:  # an output that came as a whole
            series[FIRST_TOKEN].observe(timings.time_to_first_token_s)
