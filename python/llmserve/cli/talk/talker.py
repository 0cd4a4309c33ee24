"""What answers: an interface of models in this process and on servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

Message: TypeAlias = Mapping[str, str]
Show: TypeAlias = Callable[[str], object]
"""Takes each piece of an answer as it comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A whole answer, and what it took."""

    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int


class Talker(Protocol):
    """A model that answers. Sampling parameters have the names of `SamplingParams`."""

    name: str
    """What the model is called."""

    def reply(self, messages: Sequence[Message], sampling: Mapping[str, Any], show: Show) -> Reply:
        """The assistant's answer to messages."""

    def complete(self, prompt: str, sampling: Mapping[str, Any], show: Show) -> Reply:
        """What follows a text."""

    def close(self) -> None:
        """Frees what the model holds."""
