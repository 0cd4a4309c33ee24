"""How a templated conversation goes on: what stands between the assistant's words and its next turn."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

from llmserve.chat import NextTurn
from llmserve.errors import TemplateError

__all__ = ["find_next_turn"]

# Renders messages, with or without the beginning of the assistant's turn.
Render: TypeAlias = Callable[[Sequence[Mapping[str, Any]], bool], str]

# Words that the assistant said in the conversation that is rendered.
_WORDS = "numbat quokka bilby"


def find_next_turn(render: Render, user_text: str, tokens: TokenTexts) -> NextTurn:
    """The next turn, read off a conversation of two users' turns and an assistant's one between them.

    `user_text` is marked. Raises `TemplateError` if the template refuses such a conversation, or does not
    show the assistant's words as they are.
    """
    words = _WORDS
    while words in user_text:
        words += " bilby"
    begun = [{"role": "user", "content": "wombat"}, {"role": "assistant", "content": words}]
    tail = _after(render([*begun, {"role": "user", "content": user_text}], True), words)
    end = tokens.end_at_start(tail)
    try:
        closing = _after(render(begun, False), words)
    except TemplateError:
        # Some ask for a user's turn at the end. The token that ends the turn is all that is needed.
        closing = tail[:end]
    length = max(end, tokens.last_border(_common_prefix(closing, tail)))
    return NextTurn(turn=tail[length:], end_of_turn=tail[:length], after_end=tail[end:length])


def _after(text: str, words: str) -> str:
    start = text.rfind(words)
    if start < 0:
        raise TemplateError("the chat template does not show the assistant's words as they are")
    return text[start + len(words) :]


def _common_prefix(one: str, other: str) -> str:
    length = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    return one[: min(len(one), len(other)) if length is None else length]


class TokenTexts:
    """The texts of a vocabulary's tokens that matter between turns."""

    __slots__ = ("_control", "_end")

    def __init__(self, control: Collection[str], end: Collection[str]) -> None:
        self._control = [token for token in control if token]
        self._end = sorted((token for token in end if token), key=len, reverse=True)

    def end_at_start(self, text: str) -> int:
        """Length of an end-of-generation token at the start, with white space before it; 0 without one."""
        num_spaces = len(text) - len(text.lstrip())
        for token in self._end:
            if text.startswith(token, num_spaces):
                return num_spaces + len(token)
        return 0

    def last_border(self, text: str) -> int:
        """The length of the text without a control token's text that is only begun at its end."""
        longest = max(map(len, self._control), default=0)
        for start in range(max(0, len(text) - longest + 1), len(text)):
            if any(
                len(token) > len(text) - start and token.startswith(text[start:]) for token in self._control
            ):
                return start
        return len(text)
