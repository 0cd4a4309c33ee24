"""The pieces of a turn while it is generated, and its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from llmserve.types import FinishReason, PromptProgress, PromptToken, Timings, Token, Usage


@dataclass(frozen=True, slots=True)
class Reasoning:
    """More of the model's reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag that begins or ends reasoning, between the texts that it separates."""

    text: str


@dataclass(frozen=True, slots=True)
class Words:
    """More of the answer. The text may be empty while a character is incomplete."""

    text: str
    tokens: tuple[Token, ...]
    progress: PromptProgress | None = None
    """Before the first words: how much of the prompt is computed, if that was requested."""


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


Piece: TypeAlias = Reasoning | Tag | Words | CallBegin | CallArguments


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnd:
    """How a turn ended."""

    finish_reason: FinishReason
    is_complete: bool
    """Whether constrained output is complete."""
    num_calls: int
    usage: Usage
    """The prompt's counts are those of the first segment, the others those of all; the texts around tool
    calls are not drawn, so they do not count."""
    timings: Timings
    """Likewise; the prefill of later segments counts as decoding."""
    reasoning_tokens: int
    stop: str | None
    """The caller's stop string that ended it."""
    prompt: tuple[PromptToken, ...] = ()
    """The first segment's prompt, if its log-probabilities were requested."""
