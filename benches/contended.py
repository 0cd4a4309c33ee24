"""On cores that busy processes share: 32 tokens of one stream, and the first token of a 600-word prompt."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
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


def _measure(server: Server, setting: Setting, busy: int, level: int, number: int) -> tuple[Trace, Trace]:
    """The stream and the prompt, one after the other."""
    first = 2 * (level * setting.runs + number)
    return (
        _request(server, setting, busy, beginning(first, STREAM_WORDS), TOKENS),
        _request(server, setting, busy, beginning(first + 1, PROMPT_WORDS), 1),
    )


def _request(server: Server, setting: Setting, busy: int, prompt: str, tokens: int) -> Trace:
    await_idle(server.pid)
    with busy_processes(busy, setting.limit_s + 30):
        request = {**server.exactly(prompt, tokens), "limit_s": setting.limit_s}
        return run_plan(server.port, [request]).traces[0]


def _figures(
    setting: Setting,
    busy: int,
    ours: Sequence[tuple[Trace, Trace]],
    theirs: Sequence[tuple[Trace, Trace]],
) -> list[Figure]:
    name = f"{busy} busy processes" if busy else "idle"
    goal = GOAL if busy else None
    my_streams, my_prompts = zip(*ours, strict=True)
    their_streams, their_prompts = zip(*theirs, strict=True)
    stream = compared(
        f"{name}: {TOKENS} tokens",
        "s",
        [one.total_s for one in my_streams],
        [one.total_s for one in their_streams],
        goal,
    )
    prompt = compared(
        f"{name}: TTFT of {PROMPT_WORDS} words",
        "s",
        [one.first_token_s for one in my_prompts],
        [one.first_token_s for one in their_prompts],
        goal,
    )
    return [
        dataclasses.replace(stream, note=_note(setting, my_streams, their_streams)),
        dataclasses.replace(prompt, note=_note(setting, my_prompts, their_prompts)),
    ]


def _note(setting: Setting, ours: Sequence[Trace], theirs: Sequence[Trace]) -> str:
    """How many requests of each side were over the limit."""
    counts = {
        side: sum(trace.cut_off is not None for trace in traces)
        for side, traces in (("ours", ours), ("peer", theirs))
    }
    over = [f"{side} over {setting.limit_s:g} s: {count}" for side, count in counts.items() if count]
    return ", ".join(over)
