"""Pure functions of the llamacpp-server dialect: events and faults -> wire."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import orjson

from llmserve.server.refusals import MalformedBodyError
from llmserve.server.web.errors import Fault
from llmserve.server.web.sse import data_frame, error_frame
from llmserve.types import Delta


@dataclass(slots=True)
class TokenFrames:
    """Renders deltas as one event per token, even if a delta has several tokens."""

    num_tokens: int = 0

    def render(self, delta: Delta) -> Iterator[bytes]:
        """The events of a delta."""
        for token in delta.tokens:
            self.num_tokens += 1
            yield data_frame(
                orjson.dumps({"message": token.text, "token": token.id, "tokens": self.num_tokens})
            )


def whole_answer(text: str) -> dict[str, str | int]:
    """The answer of a request without ``stream``."""
    return {"message": text, "token": 0, "tokens": 0}


def progress_frame(progress: float) -> bytes:
    """An event of a load; 1 is written without a fraction, as llamacpp-server writes it."""
    return data_frame(orjson.dumps({"progress": 1 if progress >= 1 else progress}))


def render_load_fault(fault: Fault) -> object:
    """``{"error": "..."}`` of a load. A body that cannot be read has no path, either."""
    is_malformed = isinstance(fault.error, MalformedBodyError)
    return {"error": f"path is required: {fault.message}" if is_malformed else fault.message}


def render_completion_fault(fault: Fault) -> object:
    """``{"error": "..."}`` of a completion."""
    return {"error": completion_message(fault)}


def completion_message(fault: Fault) -> str:
    """The message, with what failed."""
    return f"prediction failed: {fault.message}" if fault.status == 500 else fault.message


def fault_frame(message: str) -> bytes:
    """The last event of a stream that failed: a JSON string."""
    return error_frame(orjson.dumps(message))
