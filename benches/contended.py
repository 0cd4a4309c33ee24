"""On cores that busy processes share: 32 tokens of one stream, and the first token of a 600-word prompt."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from .harness import Figure, Goal, Setting, compared, interleave
from .processes import await_idle, busy_processes
from .prompts import beginning
from .servers import Server, llama_server, llmserve
from .streams import Trace, run_plan

TOKENS = 32
STREAM_WORDS = 10
PROMPT_WORDS = 600
CELLS = 1024
GOAL = Goal(0.1)


@dataclass(frozen=True, slots=True)
class Request:
    """How long a request took, or its limit."""

    took_s: float
    is_over: bool


@dataclass(frozen=True, slots=True)
class Contended:
    """One run: a stream to its last token, a prompt to the first one."""

    stream: Request
    prompt: Request


def run(setting: Setting) -> list[Figure]:
    """Compares with `llama-server`, on an idle machine too. A request over the limit counts as that long."""
    figures = []
    with llmserve(setting, 1, CELLS) as ours, llama_server(setting, 1, CELLS) as theirs:
        for level, busy in enumerate((0, *setting.busy)):
            results = interleave(
                setting.runs,
                {
                    f"llmserve, {busy} busy": partial(_measure, ours, setting, busy, level),
                    f"llama-server, {busy} busy": partial(_measure, theirs, setting, busy, level),
                },
            )
            figures += _figures(setting, busy, *results.values())
    return figures


def _measure(server: Server, setting: Setting, busy: int, level: int, number: int) -> Contended:
    first = 2 * (level * setting.runs + number)
    stream = _request(server, setting, busy, beginning(first, STREAM_WORDS), TOKENS)
    prompt = _request(server, setting, busy, beginning(first + 1, PROMPT_WORDS), 1)
    return Contended(
        Request(stream.total_s, stream.cut_off is not None),
        Request(prompt.first_token_s, prompt.cut_off is not None),
    )


def _request(server: Server, setting: Setting, busy: int, prompt: str, tokens: int) -> Trace:
    await_idle(server.pid)
    with busy_processes(busy, setting.limit_s + 30):
        request = {**server.exactly(prompt, tokens), "limit_s": setting.limit_s}
        return run_plan(server.port, [request]).traces[0]


def _figures(
    setting: Setting, busy: int, ours: Sequence[Contended], theirs: Sequence[Contended]
) -> list[Figure]:
    name = f"{busy} busy processes" if busy else "idle"
    return [
        _figure(
            setting,
            f"{name}: {what}",
            [getattr(one, field) for one in ours],
            [getattr(one, field) for one in theirs],
            GOAL if busy else None,
        )
        for what, field in ((f"{TOKENS} tokens", "stream"), (f"TTFT of {PROMPT_WORDS} words", "prompt"))
    ]


def _figure(
    setting: Setting, name: str, ours: Sequence[Request], theirs: Sequence[Request], goal: Goal | None
) -> Figure:
    counts = {side: sum(one.is_over for one in runs) for side, runs in (("ours", ours), ("peer", theirs))}
    over = [f"{side} over {setting.limit_s:g} s: {count}" for side, count in counts.items() if count]
    figure = compared(name, "s", [one.took_s for one in ours], [one.took_s for one in theirs], goal)
    return dataclasses.replace(figure, note=", ".join(over))
