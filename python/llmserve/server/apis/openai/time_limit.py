"""llama-server's `t_max_predict_ms`: a time limit on a text that may end at the end of a line."""

from __future__ import annotations

import anyio

from llmserve.server.apis.openai.schema import GenerationFields


class TimeLimit:
    """Counts from the first token, and takes effect once the text has a line end."""

    def __init__(self, seconds: float) -> None:
        self.has_passed = False
        """Whether the text was ended."""
        self._seconds = seconds
        self._begun: float | None = None
        self._has_line_end = False

    def ends_with(self, text: str) -> bool:
        """Whether the output is to end with this text."""
        now = anyio.current_time()
        if self._begun is None:
            self._begun = now
        self._has_line_end |= "\n" in text
        self.has_passed |= self._has_line_end and now - self._begun > self._seconds
        return self.has_passed


def time_limit(fields: GenerationFields) -> TimeLimit | None:
    """The limit that a request has; `None` if it has none."""
    return None if fields.time_limit_s is None else TimeLimit(fields.time_limit_s)
