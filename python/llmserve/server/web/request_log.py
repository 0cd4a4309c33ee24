"""One line in the log for each request: what it was, what it used and how it ended, but none of its text."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

logger = logging.getLogger("llmserve.requests")

_MAX_PATH_LENGTH = 200


@dataclass(slots=True)
class RequestNotes:
    """What is known of a request beside its method, path and status; empty and 0: nothing."""

    model: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    finish_reason: str = ""


_current: ContextVar[RequestNotes | None] = ContextVar("llmserve_request_notes", default=None)


def notes() -> RequestNotes:
    """The notes of the request that is being served; outside of any, new ones that nobody reads."""
    return _current.get() or RequestNotes()


@contextmanager
def logged(method: str, path: str, status: Callable[[], int | str]) -> Iterator[None]:
    """Serves a request and logs it at the end, with the status that it then has."""
    started = time.monotonic()
    taken = RequestNotes()
    _current.set(taken)
    try:
        yield
    finally:
        # Not `reset`: a stream that is left may end in another context.
        _current.set(None)
        _log(method, path[:_MAX_PATH_LENGTH], status(), time.monotonic() - started, taken)


def _log(method: str, path: str, status: int | str, seconds: float, taken: RequestNotes) -> None:
    fields: dict[str, Any] = {"method": method, "path": path, "status": status, "seconds": round(seconds, 3)}
    text = f"{method} {path} {status} {seconds:.3f} s"
    if taken.model:
        fields["model"] = taken.model
        text += f" model={taken.model}"
    if taken.prompt_tokens or taken.completion_tokens:
        fields |= {"tokens_in": taken.prompt_tokens, "tokens_out": taken.completion_tokens}
        text += f" tokens={taken.prompt_tokens}+{taken.completion_tokens}"
    if taken.finish_reason:
        fields["finish_reason"] = taken.finish_reason
        text += f" finish={taken.finish_reason}"
    logger.info("%s", text, extra={"fields": fields})
