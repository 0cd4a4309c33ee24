"""The pieces of a turn while it is generated, and its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from llmserve.types import FinishReason, Token


@dataclass(frozen=True, slots=True)
class Reasoning:
    """More of the model's reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class Words:
    """More of the answer. The text may be empty while a character is incomplete."""

    text: str
    tokens: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class CallBegin:
    """A tool call begins."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """More of the arguments as JSON text; joined, the pieces of one call are a complete document."""

    index: int
    text: str


Piece: TypeAlias = Reasoning | Words | CallBegin | CallArguments


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnd:
    """How a turn ended. Counts are in tokens, durations in seconds."""

    finish_reason: FinishReason
    is_complete: bool
    """Whether constrained output is complete."""
    num_calls: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    """Drawn tokens of all segments; the texts around tool calls are not drawn."""
    reasoning_tokens: int
    draft_tokens: int
    accepted_tokens: int
    prefill_s: float
    decode_s: float
    stop: str | None
    """The caller's stop string that ended it."""
