"""How long a model may reason before the answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReasoningLimit:
    """A limit on the reasoning of a turn, at which it is closed, so that the answer still comes.

    A model without reasoning has none to close.
    """

    max_tokens: int | None = None
    """`None`: the default; 0: reasoning that has been begun is closed at once."""
    message: str | None = None
    """The last words of reasoning that is closed here, which tell the model why; `None`: the default."""

    def over(self, default: ReasoningLimit) -> ReasoningLimit:
        """What it leaves open is the default's."""
        return ReasoningLimit(
            default.max_tokens if self.max_tokens is None else self.max_tokens,
            default.message if self.message is None else self.message,
        )


NO_LIMIT = ReasoningLimit()
NO_REASONING = ReasoningLimit(0, "")
"""Reasoning is closed at once, without a word, even if the template has nothing to turn it off with."""
