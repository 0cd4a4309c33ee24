"""What a request has given so far, put together from the native events."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from llmserve.errors import BudgetTooSmallError, DocumentTooLongError, LlmserveError
from llmserve.types import (
    Completion,
    Delta,
    PromptProgress,
    PromptToken,
    Timings,
    Token,
    TokenLogprobs,
    Usage,
)

if TYPE_CHECKING:
    from llmserve._core import _Event, _Logprobs, _PromptToken, _Token

__all__ = ["PIECE", "Transcript"]

PIECE = 64
"""Tokens that are taken in at a time: one takes some microseconds, and an event loop may stand still for
about a millisecond."""


class Transcript:
    """The state of one request as its client knows it."""

    __slots__ = (
        "_context_length",
        "_deltas",
        "_max_tokens",
        "_num_cached_tokens",
        "_prompt",
        "_texts",
        "_tokens",
        "completion",
        "error",
        "num_prompt_tokens",
    )

    def __init__(self, max_tokens: int | None = None, context_length: int = 0) -> None:
        """With the limits of the request."""
        self._max_tokens = max_tokens
        self._context_length = context_length
        self.num_prompt_tokens: int | None = None
        """Known once the request has been accepted."""
        self.completion: Completion | None = None
        """Known at the end."""
        self.error: LlmserveError | None = None
        """Known at the end of a request that was refused or failed."""
        self._num_cached_tokens = 0
        self._deltas: deque[Delta] = deque()
        self._prompt: list[PromptToken] = []
        self._texts: list[str] = []
        self._tokens: list[Token] = []

    @property
    def is_over(self) -> bool:
        """Whether the terminal event has come."""
        return self.completion is not None or self.error is not None

    def add(self, events: Iterable[_Event]) -> int:
        """Take in the next events; returns the number of their tokens."""
        num_tokens = 0
        for event in events:
            if event[0] == "delta":
                num_tokens += len(event[2])
                self._add_delta(event[1], event[2])
            elif event[0] == "prompt":
                num_tokens += len(event[1])
                self._add_prompt(event[1])
            elif event[0] == "accepted":
                self.num_prompt_tokens = event[1]
            elif event[0] == "started":
                self._num_cached_tokens = event[1]
            elif event[0] == "progress":
                self._add_progress(event[1])
            elif event[0] == "finished":
                _, reason, usage, timings, seed, stop, is_complete = event
                self.completion = Completion(
                    text="".join(self._texts),
                    tokens=tuple(self._tokens),
                    finish_reason=reason,
                    usage=_usage(*usage),
                    timings=_timings(*timings),
                    seed=seed,
                    stop=stop,
                    is_complete=is_complete,
                    prompt=tuple(self._prompt),
                )
            elif event[0] == "failed":
                self.error = self._told(event[1])
        return num_tokens

    def _told(self, error: LlmserveError) -> LlmserveError:
        """The error with what set the limit: the engine blames `max_tokens` for the context length, too."""
        if not isinstance(error, BudgetTooSmallError) or error.budget == self._max_tokens:
            return error
        num_prompt_tokens = self._context_length - error.budget
        return DocumentTooLongError(
            f"the prompt's {num_prompt_tokens} tokens leave {error.budget} of the context length of "
            f"{self._context_length}, and the shortest document takes {error.minimum}",
            prompt_tokens=num_prompt_tokens,
            context_length=self._context_length,
            minimum=error.minimum,
            budget=error.budget,
        )

    @property
    def is_read(self) -> bool:
        """Whether no delta waits to be read."""
        return not self._deltas

    def next_delta(self) -> Delta | None:
        """The next delta that has not been read yet."""
        return self._deltas.popleft() if self._deltas else None

    def _add_prompt(self, raw_tokens: tuple[_PromptToken, ...]) -> None:
        tokens = tuple([_prompt_token(raw) for raw in raw_tokens])
        self._prompt += tokens
        self._deltas.append(Delta(text="", tokens=(), prompt=tokens))

    def _add_progress(self, num_tokens: int) -> None:
        progress = PromptProgress(
            total_tokens=self.num_prompt_tokens or 0,
            cached_tokens=self._num_cached_tokens,
            computed_tokens=num_tokens,
        )
        self._deltas.append(Delta(text="", tokens=(), progress=progress))

    def _add_delta(self, text: str, raw_tokens: tuple[_Token, ...]) -> None:
        tokens = tuple([_token(raw) for raw in raw_tokens])
        self._texts.append(text)
        self._tokens += tokens
        self._deltas.append(Delta(text=text, tokens=tokens))


def _token(raw: _Token) -> Token:
    number, data, text, logprobs = raw
    if logprobs is None:
        return Token(id=number, bytes=data, text=text)
    return Token(id=number, bytes=data, text=text, logprobs=_logprobs(logprobs))


def _prompt_token(raw: _PromptToken) -> PromptToken:
    number, data, score = raw
    if score is None:
        return PromptToken(id=number, bytes=data)
    return PromptToken(id=number, bytes=data, logprobs=_logprobs(score[1]), rank=score[0])


def _logprobs(raw: _Logprobs) -> TokenLogprobs:
    return TokenLogprobs(logprob=raw[0], top=raw[1])


def _usage(prompt: int, cached: int, completion: int, draft: int, accepted: int) -> Usage:
    return Usage(
        prompt_tokens=prompt,
        cached_tokens=cached,
        completion_tokens=completion,
        draft_tokens=draft,
        accepted_tokens=accepted,
    )


def _timings(queue: float, prefill: float, decode: float, first_token: float) -> Timings:
    return Timings(queue_s=queue, prefill_s=prefill, decode_s=decode, time_to_first_token_s=first_token)
