"""One line in the log for each request: what it was, what it used and how it ended, but none of its text."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llmserve.server.request_notes import RequestNotes, noting

logger = logging.getLogger("llmserve.requests")

MAX_PATH_LENGTH = 200


@contextmanager
def logged(method: str, path: str, status: Callable[[], int | str]) -> Iterator[None]:
    """Serves a request and logs it at the end, with the status that it then has."""
    started = time.monotonic()
    with noting() as taken:
        try:
            yield
        finally:
            _log(method, path[:MAX_PATH_LENGTH], status(), time.monotonic() - started, taken)


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
    if taken.trace_id:
        fields["trace_id"] = taken.trace_id
        text += f" trace={taken.trace_id}"
    logger.info("%s", text, extra={"fields": fields})
