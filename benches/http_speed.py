"""Decode speed through HTTP: `llmserve serve` and SSE streams of `/completions`, read by another process."""

from __future__ import annotations

from functools import partial

from .harness import CELLS, DECODE_TOKENS, PROMPT_TOKENS, Figure, Goal, Setting, compared, interleave, retried
from .peer_tools import batched_decode_rates
from .prompts import refrain
from .servers import Server, llama_server, llmserve
from .streams import decode_rate, run_plan

GOAL = Goal(0.9, at_most=False)


def run(setting: Setting) -> list[Figure]:
    """Compares with `llama-batched-bench`; `llama-server` is shown for information."""
    room = max(setting.sequences)
    with llmserve(setting, room, CELLS) as ours, llama_server(setting, room, CELLS) as theirs:
        results = interleave(
            setting.runs,
            {
                "llama-batched-bench": lambda _: batched_decode_rates(
                    setting, PROMPT_TOKENS, DECODE_TOKENS, CELLS
                ),
                "llmserve": lambda number: rates(ours, setting.sequences, number),
                "llama-server": lambda number: rates(theirs, setting.sequences, number),
            },
        )
    figures = []
    for count in setting.sequences:
        mine = [run[count] for run in results["llmserve"]]
        for peer, goal in (("llama-batched-bench", GOAL), ("llama-server", None)):
            figures.append(
                compared(
                    f"{count} streams, {peer}", "tok/s", mine, [run[count] for run in results[peer]], goal
                )
            )
    return figures


def rates(server: Server, sequences: tuple[int, ...], number: int) -> dict[int, float]:
    """Decode speed of `server` for each number of streams; prompts are computed beforehand (prefix cache)."""
    return {count: retried(partial(_rate, server, count), number) for count in sequences}


def _rate(server: Server, count: int, number: int) -> float:
    prompts = [refrain(1000 * number + stream, PROMPT_TOKENS) for stream in range(count)]
    run_plan(server.port, [server.completion(prompt, 1) for prompt in prompts])
    outcome = run_plan(server.port, [server.completion(prompt, DECODE_TOKENS) for prompt in prompts])
    return decode_rate(outcome.traces, DECODE_TOKENS // 2)
