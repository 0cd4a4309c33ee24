"""Four running streams while a 2,000-token prompt comes in: how long they stand still, how long it waits."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from functools import partial

from .harness import BenchError, Figure, Goal, Setting, compared, interleave, measured, retried
from .prompts import refrain, text
from .servers import Server, llama_server, llmserve
from .streams import run_plan

STREAMS = 4
STREAM_PROMPT_TOKENS = 100
QUIET_TOKENS = 60
ARRIVING_TOKENS = 2000
CELLS = 4096
GAP_GOAL = Goal(4.0)
WAIT_GOAL = Goal(2.0)


@dataclass(frozen=True, slots=True)
class Mixed:
    """One run: gaps of the running streams, and the arriving prompt's time to first token, in seconds."""

    quiet_gap_s: float
    largest_gap_s: float
    busy_first_token_s: float
    alone_first_token_s: float


def run(setting: Setting) -> list[Figure]:
    """Judges llmserve by itself; `llama-server` is shown beside it."""
    room = STREAMS + 1
    with llmserve(setting, room, CELLS) as ours, llama_server(setting, room, CELLS) as theirs:
        results = interleave(
            setting.runs,
            {
                "llmserve": lambda number: retried(partial(_measure, ours), number),
                "llama-server": lambda number: retried(partial(_measure, theirs), number),
            },
        )
    mine, peer = results["llmserve"], results["llama-server"]
    return [
        measured("llmserve: largest gap / quiet gap", "ratio", [_standstill(one) for one in mine], GAP_GOAL),
        measured("llama-server: the same", "ratio", [_standstill(one) for one in peer]),
        measured("llmserve: TTFT beside streams / alone", "ratio", [_wait(one) for one in mine], WAIT_GOAL),
        measured("llama-server: the same", "ratio", [_wait(one) for one in peer]),
        _pair("quiet gap", [one.quiet_gap_s for one in mine], [one.quiet_gap_s for one in peer]),
        _pair("largest gap", [one.largest_gap_s for one in mine], [one.largest_gap_s for one in peer]),
        _pair(
            "TTFT beside streams",
            [one.busy_first_token_s for one in mine],
            [one.busy_first_token_s for one in peer],
        ),
        _pair(
            "TTFT alone", [one.alone_first_token_s for one in mine], [one.alone_first_token_s for one in peer]
        ),
    ]


def _pair(name: str, mine: list[float], peer: list[float]) -> Figure:
    return compared(name, "s", mine, peer)


def _standstill(one: Mixed) -> float:
    return one.largest_gap_s / one.quiet_gap_s


def _wait(one: Mixed) -> float:
    return one.busy_first_token_s / one.alone_first_token_s


def _measure(server: Server, number: int) -> Mixed:
    # Every prompt is new, so that nothing of it is found in a cache.
    alone = run_plan(server.port, [server.completion(text(10_000 + number, ARRIVING_TOKENS), 1)])
    streams = [
        server.completion(refrain(100 * number + one, STREAM_PROMPT_TOKENS), CELLS - 2 * STREAM_PROMPT_TOKENS)
        for one in range(STREAMS)
    ]
    outcome = run_plan(
        server.port,
        streams,
        arrival=server.completion(text(20_000 + number, ARRIVING_TOKENS), 1),
        arrival_after=QUIET_TOKENS,
    )
    if outcome.ended_early or outcome.arrival is None:
        raise BenchError(f"{outcome.ended_early} of {STREAMS} streams ended before the arriving prompt did")
    asked, answered = outcome.arrival.sent, outcome.arrival.times[0]
    all_run = max(trace.times[0] for trace in outcome.traces)
    quiet = [gap for trace in outcome.traces for gap in trace.gaps(all_run, asked)]
    busy = [gap for trace in outcome.traces for gap in trace.gaps(asked, answered)]
    if len(quiet) < STREAMS * QUIET_TOKENS // 3:
        raise BenchError(f"only {len(quiet)} quiet gaps were seen before the arriving prompt")
    return Mixed(
        quiet_gap_s=statistics.median(quiet),
        largest_gap_s=max([*busy, *(_silence(trace.times, answered) for trace in outcome.traces)]),
        busy_first_token_s=outcome.arrival.first_token_s,
        alone_first_token_s=alone.traces[0].first_token_s,
    )


def _silence(times: list[float], until: float) -> float:
    """How long a stream had been silent at `until`: a standstill shows even if it never spoke again."""
    return until - max(at for at in times if at <= until)
