"""Generations that were ended before their end."""

from __future__ import annotations

from llmserve.server.refusals.base import Refusal


class CallCancelledError(Refusal):
    """The call was cancelled, and a partial answer would be useless or look like a whole one."""

    code = "call_cancelled"

    def __init__(self, message: str = "the call was cancelled in its session") -> None:
        super().__init__(message)


class GenerationTimeoutError(Refusal):
    """A time limit that the request itself set has passed."""

    code = "timeout"

    def __init__(self, field: str, seconds: float) -> None:
        super().__init__(f"the request exceeded {field} ({seconds:g} s)")
        self.field = field
        self.seconds = seconds


class GenerationCancelledError(Refusal):
    """Another client ended the session's running calls."""

    code = "generation_cancelled"

    def __init__(self) -> None:
        super().__init__(
            "the generation was cancelled: another client ended the running calls of its session"
        )
