"""Requests that arrive by chance (Poisson), three short prompts to a long one: waits and gaps."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from .harness import BenchError, Figure, Goal, Setting, beside, compared, interleave, p95
from .prompts import text
from .servers import Server, llama_server, llmserve
from .streams import Trace, run_plan

SEQUENCES = 16
CELLS = 2048
SHORT_WORDS = (20, 60)
LONG_WORDS = (600, 900)
TOKENS = (64, 128)
# One request in this many is long.
GROUP = 4
FIRST_TOKEN_S, GAP_S = 2.0, 0.5
LONG_GOAL = Goal(1.2)
SHARE_GOAL = Goal(0.97, at_most=False)


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a trace."""

    after_s: float
    num_words: int
    num_tokens: int
    seed: int

    @property
    def is_long(self) -> bool:
        """Whether its prompt is a long one."""
        return self.num_words >= LONG_WORDS[0]


@dataclass(frozen=True, slots=True)
class Service:
    """One run: how the requests of a trace were served."""

    long_first_token_p95_s: float
    short_first_token_p95_s: float
    good_share: float
    largest_gap_s: float


def run(setting: Setting) -> list[Figure]:
    """Compares with `llama-server`: each round has a trace of its own, the same for both."""
    figures = []
    with (
        llmserve(setting, SEQUENCES, CELLS) as ours,
        llama_server(setting, SEQUENCES, CELLS) as theirs,
    ):
        for rate in setting.rates:
            results = interleave(
                setting.runs,
                {
                    f"llmserve, {rate:g} a second": partial(_measure, ours, setting, rate),
                    f"llama-server, {rate:g} a second": partial(_measure, theirs, setting, rate),
                },
            )
            figures += _figures(rate, *results.values())
    return figures


def requests(rate: float, seconds: float, number: int) -> list[Request]:
    """The trace of the round `number`: `rate` requests a second for `seconds`."""
    chance = random.Random(f"{rate:g} a second, round {number}")  # noqa: S311 - no secret
    trace: list[Request] = []
    long_one = 0
    at = chance.expovariate(rate)
    while at < seconds:
        index = len(trace)
        if index % GROUP == 0:
            long_one = index + chance.randrange(GROUP)
        num_words = chance.randint(*(LONG_WORDS if index == long_one else SHORT_WORDS))
        trace.append(Request(at, num_words, chance.randint(*TOKENS), chance.randrange(2**32)))
        at += chance.expovariate(rate)
    return trace


def _measure(server: Server, setting: Setting, rate: float, number: int) -> Service:
    plan = requests(rate, setting.seconds, number)
    outcome = run_plan(
        server.port,
        [
            {**server.exactly(text(one.seed, one.num_words), one.num_tokens), "after_s": one.after_s}
            for one in plan
        ],
    )
    long_ones = [trace for one, trace in zip(plan, outcome.traces, strict=True) if one.is_long]
    short_ones = [trace for one, trace in zip(plan, outcome.traces, strict=True) if not one.is_long]
    if not long_ones or not short_ones:
        raise BenchError(f"{setting.seconds:g} s are too few: {len(plan)} requests, {len(long_ones)} long")
    return Service(
        long_first_token_p95_s=p95([trace.first_token_s for trace in long_ones]),
        short_first_token_p95_s=p95([trace.first_token_s for trace in short_ones]),
        good_share=sum(_is_good(trace) for trace in outcome.traces) / len(plan),
        largest_gap_s=max(max(trace.gaps()) for trace in outcome.traces),
    )


def _is_good(trace: Trace) -> bool:
    return trace.first_token_s <= FIRST_TOKEN_S and max(trace.gaps()) <= GAP_S


def _figures(rate: float, ours: Sequence[Service], theirs: Sequence[Service]) -> list[Figure]:
    def both(field: str) -> tuple[list[float], list[float]]:
        return [getattr(one, field) for one in ours], [getattr(one, field) for one in theirs]

    name = f"{rate:g} a second"
    good = f"{name}: first token in {FIRST_TOKEN_S:g} s, no gap over {GAP_S:g} s"
    return [
        compared(f"{name}: long prompts' TTFT p95", "s", *both("long_first_token_p95_s"), LONG_GOAL),
        compared(f"{name}: short prompts' TTFT p95", "s", *both("short_first_token_p95_s")),
        beside(good, "share", *both("good_share"), SHARE_GOAL),
        beside(f"{name}: largest gap", "s", *both("largest_gap_s")),
    ]
