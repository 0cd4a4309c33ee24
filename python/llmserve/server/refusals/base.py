"""The base of all refusals."""

from __future__ import annotations

from llmserve.errors import LlmserveError

MAX_SHOWN_ID = 128
"""Messages show at most this many characters of an id that a client sent."""


class Refusal(LlmserveError):
    """Base of all refusals."""

    code = "refused"
