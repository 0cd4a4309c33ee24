"""Chat prompts: rendered chat templates, ready for the engine."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ChatPrompt", "NextTurn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPrompt:
    """Messages rendered by a chat template: a prompt for `generate`, `stream` and `tokenize`.

    Text of the messages never becomes control tokens; text of the template may.
    """

    text: str
    """The rendered text, for people to read."""
    marked: str
    """The same text with a mark (U+FDD0) inside each control token's text that comes from a message."""
    stop: tuple[str, ...] = ()
    """Stop strings that the layout needs; only the plain layout of models without a template has any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NextTurn:
    """How a templated conversation continues with the user's next message; all texts are marked.

    The assistant's words are followed by `end_of_turn` (or `after_end`, if its last token ended the
    generation) and `turn`.
    """

    turn: str
    """The user's turn and the beginning of the assistant's."""
    end_of_turn: str
    """What closes the assistant's turn."""
    after_end: str
    """`end_of_turn` without the end-of-generation token at its beginning."""
    stop: tuple[str, ...] = ()
    """Stop strings, as in `ChatPrompt`."""
