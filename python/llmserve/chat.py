"""Chat prompts: what chat templates give and the engine takes."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ChatPrompt", "NextTurn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPrompt:
    """Messages as a chat template renders them. `generate`, `stream` and `tokenize` take it as a prompt.

    Text of the messages never becomes control tokens; text of the template does.
    """

    text: str
    """The rendered text, as people read it."""
    marked: str
    """The same with a mark (U+FDD0) in each control token's text that stands in a message."""
    stop: tuple[str, ...] = ()
    """Stop strings that the layout needs; only the plain layout does, for models without a template."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NextTurn:
    """How a templated conversation goes on with the user's next message; all texts are marked.

    After the assistant's words come `end_of_turn` (or `after_end`, if its last token ended the generation)
    and `turn`.
    """

    turn: str
    """The user's turn and the beginning of the assistant's."""
    end_of_turn: str
    """What closes the assistant's turn."""
    after_end: str
    """The same without the end-of-generation token at its beginning."""
    stop: tuple[str, ...] = ()
    """Stop strings, as in `ChatPrompt`."""
