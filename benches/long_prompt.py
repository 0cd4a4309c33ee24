"""A 1,700-word prompt: alone, with most of it in the cache, and coming in beside four running streams."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from functools import partial

from .harness import BenchError, Figure, Goal, Setting, beside, compared, interleave, measured
from .prompts import beginning, text
from .servers import Server, llama_server, llmserve
from .streams import run_plan

WORDS = 1700
NEW_WORDS = 34
STREAMS = 4
STREAM_WORDS = 100
QUIET_TOKENS = 60
CELLS = 4096
ALONE_GOAL = Goal(1.0)
CACHED_GOAL = Goal(0.92)
BESIDE_GOAL = Goal(1.5)
GAP_GOAL = Goal(200.0)


@dataclass(frozen=True, slots=True)
class LongPrompt:
    """One run: times to first token, and gaps of the running streams."""

    alone_s: float
    cached_s: float
    beside_s: float
    quiet_gap_ms: float
    largest_gap_ms: float


def run(setting: Setting) -> list[Figure]:
    """Compares with `llama-server`; what the prompt takes beside streams, with what it takes there alone."""
    room = STREAMS + 1
    with llmserve(setting, room, CELLS) as ours, llama_server(setting, room, CELLS) as theirs:
        results = interleave(
            setting.runs,
            {"llmserve": partial(_measure, ours), "llama-server": partial(_measure, theirs)},
        )
    mine, peer = results["llmserve"], results["llama-server"]
    alone = [one.alone_s for one in peer]
    largest = [one.largest_gap_ms for one in mine], [one.largest_gap_ms for one in peer]
    quiet = [one.quiet_gap_ms for one in mine], [one.quiet_gap_ms for one in peer]
    return [
        compared("TTFT alone", "s", [one.alone_s for one in mine], alone, ALONE_GOAL),
        compared(
            f"TTFT, all but {NEW_WORDS} words cached",
            "s",
            [one.cached_s for one in mine],
            [one.cached_s for one in peer],
            CACHED_GOAL,
        ),
        compared(
            "TTFT beside streams / llama-server's alone",
            "s",
            [one.beside_s for one in mine],
            alone,
            BESIDE_GOAL,
        ),
        compared("llama-server: the same", "s", [one.beside_s for one in peer], alone),
        beside("largest gap of the streams", "ms", *largest, GAP_GOAL),
        compared("quiet gap of the streams", "ms", *quiet),
        measured("TTFT beside streams / alone", "ratio", [one.beside_s / one.alone_s for one in mine]),
    ]


def _measure(server: Server, number: int) -> LongPrompt:
    # Every prompt begins with another word, so that nothing of it is found in a cache.
    first = number * (STREAMS + 2)
    prompt = beginning(first, WORDS)
    alone = run_plan(server.port, [server.exactly(prompt, 1)]).traces[0]
    known = " ".join(prompt.split()[: WORDS - NEW_WORDS])
    cached = run_plan(server.port, [server.exactly(f"{known} {text(first + 1, NEW_WORDS)}", 1)]).traces[0]
    outcome = run_plan(
        server.port,
        [
            server.exactly(beginning(first + 2 + stream, STREAM_WORDS), CELLS - 2 * STREAM_WORDS)
            for stream in range(STREAMS)
        ],
        arrival=server.exactly(beginning(first + 1, WORDS), 1),
        arrival_after=QUIET_TOKENS,
    )
    if outcome.ended_early or outcome.arrival is None:
        raise BenchError(f"{outcome.ended_early} of {STREAMS} streams ended before the arriving prompt did")
    asked, answered = outcome.arrival.sent, outcome.arrival.times[0]
    all_run = max(trace.times[0] for trace in outcome.traces)
    quiet = [gap for trace in outcome.traces for gap in trace.gaps(all_run, asked)]
    if len(quiet) < STREAMS * QUIET_TOKENS // 3:
        raise BenchError(f"only {len(quiet)} quiet gaps were seen before the arriving prompt")
    busy = [gap for trace in outcome.traces for gap in trace.gaps(asked, answered)]
    return LongPrompt(
        alone_s=alone.first_token_s,
        cached_s=cached.first_token_s,
        beside_s=outcome.arrival.first_token_s,
        quiet_gap_ms=1000 * statistics.median(quiet),
        largest_gap_ms=1000 * max([*busy, *(_silence(trace.times, answered) for trace in outcome.traces)]),
    )


def _silence(times: list[float], until: float) -> float:
    """How long a stream had been silent at `until`: a standstill shows even if it never spoke again."""
    return until - max(at for at in times if at <= until)
