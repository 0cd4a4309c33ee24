"""Prompts for the models with a draft head, and what an engine must give for them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal

from llmserve import Completion, Drafting, Engine, ModelConfig
from synthetic import DRAFT_AGREEMENT, VOCABULARY, Drafted, greedy, rules, simulate

LANGUAGE = rules(DRAFT_AGREEMENT)
NEVER_RIGHT = rules(0.0)
DRAFT_LENS = (1, 2, 3, 5, 8)

Tokens = list[int]
Choice = Drafting | Literal[False] | None
"""How a request drafts; `None`: as the engine does by default."""


def config(**options: Any) -> ModelConfig:
    """Batches with room for eight drafts of eight, but small: longer prompts come in several steps."""
    defaults = {"context_length": 512, "max_sequences": 8, "batch_size": 128, "ubatch_size": 64, "threads": 1}
    return ModelConfig(**{**defaults, **options})


def prompt(number: int, length: int) -> Tokens:
    """Random live tokens; the first one differs from number to number, so that no prefix is shared."""
    draw = random.Random(1000 + number).random  # noqa: S311 - no secret
    live = VOCABULARY.live
    return [live[number % len(live)], *(live[int(draw() * len(live))] for _ in range(length - 1))]


# Some shorter than the longest look back, some longer than a batch; the outputs end at different times.
PROMPTS = [prompt(number, length) for number, length in enumerate((2, 5, 18, 19, 33, 50, 64, 65, 130, 200))]
LENGTHS = [40 + 7 * number for number in range(len(PROMPTS))]


async def complete(
    engine: Engine,
    tokens: Sequence[int],
    max_tokens: int,
    drafting: Choice = None,
    **arguments: Any,
) -> Completion:
    """Generates after token ids, as they are."""
    return await engine.generate(
        tokens, add_special=False, max_tokens=max_tokens, drafting=drafting, **arguments
    )


def ids(completion: Completion) -> Tokens:
    """The output."""
    return [token.id for token in completion.tokens]


def counts(completion: Completion) -> tuple[int, int]:
    """Drafted and accepted tokens."""
    return completion.usage.draft_tokens, completion.usage.accepted_tokens


def expected(tokens: Sequence[int], max_tokens: int, draft_len: int) -> Drafted:
    """What `draft_head.gguf` gives."""
    return _simulated(tuple(tokens), max_tokens, draft_len)


@cache
def _simulated(tokens: tuple[int, ...], max_tokens: int, draft_len: int) -> Drafted:
    return simulate(LANGUAGE, tokens, max_tokens, draft_len)


def text_of(tokens: Sequence[int], max_tokens: int) -> Tokens:
    """The greedy output of all models of this language."""
    return greedy(LANGUAGE, tokens, max_tokens)


def is_as_simulated(completion: Completion, tokens: Sequence[int], draft_len: int) -> bool:
    """Whether output and counts of a whole greedy generation are those of the simulator."""
    simulated = expected(tokens, len(completion.tokens), draft_len)
    return ids(completion) == simulated.tokens and counts(completion) == (
        simulated.num_drafted,
        simulated.num_accepted,
    )
