"""How a templated conversation continues: the text between the assistant's words and its next turn."""

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
    try:
        # What closes the turn comes even if no other turn follows.
        closing = _common_prefix(tail, _after(render(begun, False), words))
    except TemplateError:
        # Some templates require a user's turn at the end.
        closing = ""
    # ChatGLM's turns have no closing, and the token that begins the user's is the one that ends a generation.
    end = tokens.end_of_first_end(closing) or tokens.end_at_start(tail)
    length = end + _num_spaces(closing[end:]) if end else tokens.last_border(closing)
    return NextTurn(turn=tail[length:], end_of_turn=tail[:length], after_end=tail[end:length])


def _after(text: str, words: str) -> str:
    start = text.rfind(words)
    if start < 0:
        raise TemplateError("the chat template does not show the assistant's words as they are")
    return text[start + len(words) :]


def _common_prefix(one: str, other: str) -> str:
    length = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    return one[: min(len(one), len(other)) if length is None else length]


def _num_spaces(text: str) -> int:
    return len(text) - len(text.lstrip())


class TokenTexts:
    """The texts of a vocabulary's tokens that matter between turns."""

    __slots__ = ("_control", "_end")

    def __init__(self, control: Collection[str], end: Collection[str]) -> None:
        self._control = [token for token in control if token]
        self._end = sorted((token for token in end if token), key=len, reverse=True)

    def end_at_start(self, text: str) -> int:
        """Where an end-of-generation token ends that only white space stands before; 0 without one."""
        start = _num_spaces(text)
        ends = (start + len(token) for token in self._end if text.startswith(token, start))
        return next(ends, 0)

    def end_of_first_end(self, text: str) -> int:
        """Where the first end-of-generation token ends; 0 without one."""
        starts = [(text.find(token), -len(token)) for token in self._end if token in text]
        return min(starts)[0] - min(starts)[1] if starts else 0

    def last_border(self, text: str) -> int:
        """The length of the text without an incomplete control token at its end."""
        longest = max(map(len, self._control), default=0)
        for start in range(max(0, len(text) - longest + 1), len(text)):
            rest = text[start:]
            if any(len(token) > len(rest) and token.startswith(rest) for token in self._control):
                return start
        return len(text)
