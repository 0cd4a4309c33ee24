"""What is known of the request that is being served, for those who tell of it: the log and the traces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal

from llmserve.types import Timings

Operation = Literal["", "chat", "text_completion", "embeddings", "rerank"]
"""What a model was asked for, in the names of OpenTelemetry's conventions for generative AI."""


@dataclass(frozen=True, slots=True)
class TimedOutput:
    """An output that was generated to its end."""

    submitted_ns: int
    """When it was submitted, in nanoseconds since 1970."""
    timings: Timings


@dataclass(slots=True)
class RequestNotes:
    """What is known of a request beside its method, path and status; empty and 0: nothing."""

    operation: Operation = ""
    model: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    finish_reasons: list[str] = field(default_factory=list)
    """Of each output; `cancelled` or `error` where an output did not end by itself."""
    outputs: list[TimedOutput] = field(default_factory=list)
    error: str = ""
    """The code of the error that refused or ended the request."""
    trace_id: str = ""

    @property
    def finish_reason(self) -> str:
        """The first that tells of a failure, else that of the first output."""
        failed = (reason for reason in self.finish_reasons if reason in ("cancelled", "error"))
        return next(failed, next(iter(self.finish_reasons), ""))


_current: ContextVar[RequestNotes | None] = ContextVar("llmserve_request_notes", default=None)


def notes() -> RequestNotes:
    """The notes of the request that is being served; outside of any, new ones that nobody reads."""
    return _current.get() or RequestNotes()


@contextmanager
def noting() -> Iterator[RequestNotes]:
    """Serves a request with notes of its own."""
    taken = RequestNotes()
    _current.set(taken)
    try:
        yield taken
    finally:
        # Not `reset`: a stream that is left may end in another context.
        _current.set(None)
