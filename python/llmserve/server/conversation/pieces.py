"""What a turn gives while it is generated, and what is known at its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from llmserve.types import FinishReason, Token


@dataclass(frozen=True, slots=True)
class Reasoning:
    """More of what the model thinks."""

    text: str


@dataclass(frozen=True, slots=True)
class Words:
    """More of the answer. The text may be empty where a character is not complete yet."""

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
    """More of the arguments, which are JSON text; those of one call joined are a whole document."""

    index: int
    text: str


Piece: TypeAlias = Reasoning | Words | CallBegin | CallArguments


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnd:
    """How a turn ended. Counts are of tokens, durations in seconds."""

    finish_reason: FinishReason
    is_complete: bool
    """Whether constrained output is whole."""
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
