"""Streams that arrive together, with short prompts that share nothing: speed, waiting, CPU for each token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from .harness import CELLS, Figure, Goal, Setting, compared, interleave, p95
from .processes import cpu_s
from .prompts import text
from .servers import Server, llama_server, llmserve
from .streams import run_plan

PROMPT_WORDS = 50
TOKENS = 128
WARM_UP_TOKENS = 16
RATE_GOAL = Goal(1.05, at_most=False)
FIRST_TOKEN_GOAL = Goal(0.95)
GAP_GOAL = Goal(1.0)
CPU_GOAL = Goal(1.0)
# One stream waits for nobody, and only many show what a token costs the server.
LEAST_STREAMS, CPU_STREAMS = 4, 32


@dataclass(frozen=True, slots=True)
class Burst:
    """One run: tokens a second from first request to last token, 95th percentiles, CPU of the server."""

    tokens_per_s: float
    first_token_p95_s: float
    gap_p95_ms: float
    cpu_ms_per_token: float


def run(setting: Setting) -> list[Figure]:
    """Compares with `llama-server`, both with as many sequences as there are streams."""
    figures = []
    for count in setting.bursts:
        with llmserve(setting, count, CELLS) as ours, llama_server(setting, count, CELLS) as theirs:
            for server in (ours, theirs):
                _measure(server, count, setting.runs, WARM_UP_TOKENS)
            results = interleave(
                setting.runs,
                {
                    f"llmserve, {count} streams": partial(_measure, ours, count),
                    f"llama-server, {count} streams": partial(_measure, theirs, count),
                },
            )
        figures += _figures(count, *results.values())
    return figures


def _measure(server: Server, count: int, number: int, num_tokens: int = TOKENS) -> Burst:
    prompts = [text(1000 * number + stream, PROMPT_WORDS) for stream in range(count)]
    before = cpu_s(server.pid)
    traces = run_plan(server.port, [server.exactly(prompt, num_tokens) for prompt in prompts]).traces
    cpu = cpu_s(server.pid) - before
    tokens = sum(len(trace.times) for trace in traces)
    took_s = max(trace.times[-1] for trace in traces) - min(trace.sent for trace in traces)
    return Burst(
        tokens_per_s=tokens / took_s,
        first_token_p95_s=p95([trace.first_token_s for trace in traces]),
        gap_p95_ms=1000 * p95([gap for trace in traces for gap in trace.gaps()]),
        cpu_ms_per_token=1000 * cpu / tokens,
    )


def _figures(count: int, ours: Sequence[Burst], theirs: Sequence[Burst]) -> list[Figure]:
    name = f"{count} stream{'s' if count > 1 else ''}"
    rows = (
        ("tokens a second", "tok/s", "tokens_per_s", RATE_GOAL),
        ("TTFT p95", "s", "first_token_p95_s", FIRST_TOKEN_GOAL),
        ("gap p95", "ms", "gap_p95_ms", GAP_GOAL),
        ("CPU a token", "ms", "cpu_ms_per_token", CPU_GOAL if count >= CPU_STREAMS else None),
    )
    return [
        compared(
            f"{name}: {what}",
            unit,
            [getattr(one, field) for one in ours],
            [getattr(one, field) for one in theirs],
            goal if count >= LEAST_STREAMS else None,
        )
        for what, unit, field, goal in rows
    ]
