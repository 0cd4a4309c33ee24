"""llama-server's reports in the events of a stream: `prompt_progress`, and `timings` so far."""

from __future__ import annotations

import time
from typing import Any

from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.openai.answers import timings
from llmserve.server.apis.openai.schema import SlotFields
from llmserve.types import PromptProgress, Timings, Usage


def with_reports(params: SamplingParams, fields: SlotFields, *, is_stream: bool) -> SamplingParams:
    """The parameters, with the engine's reports if a stream needs them."""
    return params.replace(prompt_progress=is_stream and (fields.return_progress or fields.timings_per_token))


class StreamReports:
    """The reports of one output."""

    def __init__(self, fields: SlotFields) -> None:
        self._has_progress = fields.return_progress
        self._has_timings = fields.timings_per_token
        self._begun = time.monotonic()
        self._drawn: float | None = None
        """When the first token came."""
        self._progress: PromptProgress | None = None

    def of_prompt(self, progress: PromptProgress) -> dict[str, Any]:
        """The fields of an event that tells how much of the prompt is computed; none if nobody asked."""
        if self._progress is None:
            self._begun = time.monotonic()
        self._progress = progress
        if not self._has_progress:
            return {}
        shown = {
            "total": progress.total_tokens,
            "cache": progress.cached_tokens,
            "processed": progress.computed_tokens,
            "time_ms": round((time.monotonic() - self._begun) * 1000),
        }
        return {"prompt_progress": shown}

    def of_output(self, num_tokens: int) -> dict[str, Any]:
        """The fields of an event with output, by its number of tokens so far."""
        if not self._has_timings or self._progress is None:
            return {}
        now = time.monotonic()
        if self._drawn is None:
            self._drawn = now
        counts = Usage(
            prompt_tokens=self._progress.total_tokens,
            cached_tokens=self._progress.cached_tokens,
            completion_tokens=num_tokens,
        )
        times = Timings(prefill_s=self._drawn - self._begun, decode_s=now - self._drawn)
        return {"timings": timings(counts, times)}
