"""Runs the client process and turns its notes into times of tokens."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .harness import BenchError

CLIENT_LIMIT_S = 900


@dataclass(slots=True)
class Trace:
    """When a stream was asked for, when its tokens came and when it was dropped, in seconds of one clock."""

    sent: float
    times: list[float] = field(default_factory=list)
    cut_off: float | None = None

    def add(self, at: float, count: int) -> None:
        """Notes `count` more tokens at the time `at`."""
        self.times += [at] * count

    @property
    def first_token_s(self) -> float:
        """Seconds from the request to the first token, or to the end of its time."""
        return (self.times[0] if self.times else self._end) - self.sent

    @property
    def total_s(self) -> float:
        """Seconds from the request to the last token, or to the end of its time."""
        return self._end - self.sent

    @property
    def _end(self) -> float:
        return self.times[-1] if self.cut_off is None else self.cut_off

    def gaps(self, start: float = -math.inf, end: float = math.inf) -> list[float]:
        """The gaps between tokens that end after `start` and begin before `end`."""
        pairs = zip(self.times, self.times[1:], strict=False)
        return [late - early for early, late in pairs if late > start and early < end]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a plan gave."""

    traces: list[Trace]
    arrival: Trace | None
    ended_early: int
    latencies: list[float]


def run_plan(
    port: int,
    streams: Sequence[dict[str, Any]],
    *,
    arrival: dict[str, Any] | None = None,
    arrival_after: int = 0,
    poll_path: str | None = None,
) -> Outcome:
    """Lets a client process carry out a plan.

    Args:
        port: of the server, on 127.0.0.1.
        streams: requests (`Server.completion`); each is sent `after_s` seconds from now, at once without, and
            is dropped after `limit_s`, if it has that.
        arrival: a request that is sent while they run; they are dropped once it is answered.
        arrival_after: the arrival is sent when each stream has had this many chunks.
        poll_path: a path that is asked for every 20 ms meanwhile.

    Raises:
        BenchError: a request was refused, or nothing came.
    """
    plan = {
        "port": port,
        "streams": list(streams),
        "arrival": arrival,
        "arrival_after": arrival_after,
        "poll_path": poll_path,
        "poll_interval_s": 0.02,
    }
    done = subprocess.run(
        [sys.executable, "-m", "benches.client"],
        input=json.dumps(plan).encode(),
        capture_output=True,
        timeout=CLIENT_LIMIT_S,
        check=False,
    )
    if done.returncode != 0:
        raise BenchError(f"the client failed: {done.stderr.decode(errors='replace')[-1000:]}")
    report = json.loads(done.stdout)
    return Outcome(
        traces=[_trace(stream) for stream in report["streams"]],
        arrival=None if report["arrival"] is None else _trace(report["arrival"]),
        ended_early=report["ended_early"],
        latencies=report["latencies"],
    )


def decode_rate(traces: Sequence[Trace], least_tokens: int) -> float:
    """Tokens a second of all streams while every one of them runs: none is in its prompt, none has ended.

    Raises:
        BenchError: less than `least_tokens` of each stream lie in that time.
    """
    start = max(trace.times[0] for trace in traces)
    end = min(trace.times[-1] for trace in traces)
    tokens = sum(1 for trace in traces for at in trace.times if start < at <= end)
    if tokens < least_tokens * len(traces):
        raise BenchError(
            f"{len(traces)} streams ran together for {tokens} tokens only, "
            f"{least_tokens * len(traces)} are needed"
        )
    return tokens / (end - start)


def _trace(stream: dict[str, Any]) -> Trace:
    body = "".join(text for _, text in stream["chunks"])
    cut_off = stream["cut_off"]
    if stream["status"] != 200 and not (cut_off and stream["status"] == 0):
        raise BenchError(f"a request was answered with {stream['status']}: {body[:300]}")
    trace = Trace(stream["sent"], cut_off=cut_off)
    rest = ""
    for at, text in stream["chunks"]:
        *lines, rest = (rest + text).split("\n")
        for line in lines:
            trace.add(at, _tokens_in(line, len(trace.times)))
    if not trace.times and cut_off is None:
        raise BenchError(f"a stream gave no token: {body[:300]}")
    return trace


def _tokens_in(line: str, before: int) -> int:
    """The new tokens that a line of an SSE body stands for; `before` is their number so far."""
    if line.startswith("event: error"):
        raise BenchError("a stream ended with an error event")
    if not line.startswith("data: {"):
        return 0
    event = json.loads(line[len("data: ") :])
    if "message" in event:  # llmserve counts for us
        return int(event["tokens"]) - before
    if event.get("stop"):  # what came without a text of its own
        return max(0, int(event.get("tokens_predicted", 0)) - before)
    return len(event.get("tokens", []))
