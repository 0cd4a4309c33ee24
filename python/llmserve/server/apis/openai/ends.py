"""Ends that OpenAI has no word for."""

from __future__ import annotations

from llmserve.server.lifecycle import Lifecycle
from llmserve.server.refusals import CallCancelledError, ServerStoppingError
from llmserve.types import FinishReason


def check_end(lifecycle: Lifecycle, reason: FinishReason) -> None:
    """Refuses to show what was cancelled as an answer: neither `stop` nor `length` would be true.

    Raises:
        ServerStoppingError: The server cancelled it.
        CallCancelledError: Another caller of its session did.
    """
    if reason == "cancelled":
        raise ServerStoppingError if lifecycle.is_stopping else CallCancelledError
