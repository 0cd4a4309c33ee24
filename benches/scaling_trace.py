"""A production-like trace: conversations that begin by chance, in bursts, under a few shared system prompts.

The numbers are of the order of public traces: prompts and answers as in LMSYS-Chat-1M (answers of about 200
tokens), system prompts and whole prompts as in Azure's LLM trace of conversations (about 1,000 tokens).
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from llmserve.routing import RoutingKey

BLOCK_TOKENS = 16
NUM_SYSTEM_PROMPTS = 12
MEAN_TURNS = 4.0
THINK_S = (20.0, 0.8)
"""Median, and sigma of the logarithm: from an answer to the next turn."""
SYSTEM_TOKENS = (700, 0.6)
USER_TOKENS = (60, 0.9)
ANSWER_TOKENS = (150, 0.7)
BURSTINESS = 2.0
"""Coefficient of variation of the times between conversations; 1 is Poisson."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What a user says, and how long the answer is, in tokens."""

    said: int
    answer: int
    think_s: float


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation."""

    number: int
    begin_s: float
    system: int
    system_tokens: int
    turns: tuple[Turn, ...]

    def prompt_tokens(self, turn: int) -> int:
        """The length of a turn's prompt."""
        before = sum(past.said + past.answer for past in self.turns[:turn])
        return self.system_tokens + before + self.turns[turn].said

    def key(self, turn: int) -> RoutingKey:
        """What a router sees of a turn."""
        shared = self.system_tokens // BLOCK_TOKENS
        total = self.prompt_tokens(turn) // BLOCK_TOKENS
        own = (self.number + 1) << 20
        common = -((self.system + 1) << 20)
        return RoutingKey(
            blocks=(*(common - n for n in range(shared)), *(own + n for n in range(shared, total)))
        )


def trace(rate: float, seconds: float, seed: int) -> Iterator[Talk]:
    """``rate`` conversations a second."""
    chance = random.Random(f"{rate:g} a second, seed {seed}")  # noqa: S311 - no secret
    systems = [_length(chance, SYSTEM_TOKENS) for _ in range(NUM_SYSTEM_PROMPTS)]
    weights = [1 / (rank + 1) for rank in range(NUM_SYSTEM_PROMPTS)]
    shape = 1 / BURSTINESS**2
    now, number = 0.0, 0
    while (now := now + chance.gammavariate(shape, 1 / (rate * shape))) < seconds:
        (system,) = chance.choices(range(NUM_SYSTEM_PROMPTS), weights)
        turns = [_turn(chance)]
        while chance.random() < 1 - 1 / MEAN_TURNS:
            turns.append(_turn(chance))
        yield Talk(number, now, system, systems[system], tuple(turns))
        number += 1


def _turn(chance: random.Random) -> Turn:
    think_s = THINK_S[0] * math.exp(chance.gauss(0, THINK_S[1]))
    return Turn(_length(chance, USER_TOKENS), _length(chance, ANSWER_TOKENS), think_s)


def _length(chance: random.Random, about: tuple[int, float]) -> int:
    return max(1, round(about[0] * math.exp(chance.gauss(0, about[1]))))
