"""Log-probabilities in the shapes of chat and of completions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from llmserve.server.generation.logprobs import finite, name_of, scored
from llmserve.types import PromptToken, Token


def chat_logprobs(tokens: Iterable[Token], texts: Mapping[int, bytes]) -> dict[str, Any]:
    """`logprobs` of a chat choice."""
    return {"content": scored(tokens, texts), "refusal": None}


class LegacyLogprobs:
    """`logprobs` of a completion's choice: lists, with offsets in the text."""

    __slots__ = ("_num_top", "_offset")

    def __init__(self, num_top: int) -> None:
        self._num_top = num_top
        self._offset = 0

    def render(self, tokens: Iterable[Token], texts: dict[int, bytes]) -> dict[str, Any]:
        """The lists of some tokens, which follow those of the last call."""
        names, logprobs, tops, offsets = [], [], [], []
        for token in tokens:
            if token.logprobs is None:
                continue
            name, logprob, top = self.entry(token, texts)
            names.append(name)
            logprobs.append(logprob)
            tops.append(top)
            offsets.append(self._offset)
            self.skip(token.text)
        return self.lists(names, logprobs, tops, offsets)

    def entry(
        self, token: Token | PromptToken, texts: Mapping[int, bytes]
    ) -> tuple[str, float | None, dict[str, float] | None]:
        """A token's name, its log-probability, and its alternatives; null where nothing precedes it."""
        name, scores = name_of(texts[token.id]), token.logprobs
        if scores is None:
            return name, None, None
        top = {name_of(texts[id_]): finite(logprob) for id_, logprob in scores.top[: self._num_top]}
        return name, finite(scores.logprob), top

    def skip(self, text: str) -> None:
        """Makes the offsets of what follows come after a text."""
        self._offset += len(text)

    def lists(
        self, tokens: list[str], token_logprobs: list[Any], top_logprobs: list[Any], text_offset: list[int]
    ) -> dict[str, Any]:
        """The lists as they are shown."""
        return {
            "tokens": tokens,
            "token_logprobs": token_logprobs,
            "top_logprobs": top_logprobs if self._num_top else None,
            "text_offset": text_offset,
        }


def joined(first: dict[str, Any], then: dict[str, Any]) -> dict[str, Any]:
    """The lists of tokens and of those that follow them."""
    return {name: None if values is None else values + then[name] for name, values in first.items()}
