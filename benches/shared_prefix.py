"""Sixteen cold requests at once that share 95 % of a 500-word prompt, 32 tokens each: the total time."""

from __future__ import annotations

from .harness import Figure, Goal, Setting, compared, interleave
from .prompts import sharing
from .servers import Server, llama_server, llmserve
from .streams import run_plan

CLIENTS = 16
PROMPT_WORDS = 500
SHARED = 0.95
TOKENS = 32
CELLS = 1024
GOAL = Goal(0.35)


def run(setting: Setting) -> list[Figure]:
    """Compares with `llama-server`; each round has words of its own, so both sides are cold."""
    with llmserve(setting, CLIENTS, CELLS) as ours, llama_server(setting, CLIENTS, CELLS) as theirs:
        results = interleave(
            setting.runs,
            {
                "llmserve": lambda number: _total_s(ours, number),
                "llama-server": lambda number: _total_s(theirs, number),
            },
        )
    name = f"{CLIENTS} requests, {SHARED:.0%} shared"
    return [compared(name, "s", results["llmserve"], results["llama-server"], GOAL)]


def _total_s(server: Server, number: int) -> float:
    prompts = sharing(number + 1, PROMPT_WORDS, CLIENTS, SHARED)
    outcome = run_plan(server.port, [server.completion(prompt, TOKENS) for prompt in prompts])
    return max(trace.times[-1] for trace in outcome.traces) - min(trace.sent for trace in outcome.traces)
