"""What the segments of a turn have cost together."""

from __future__ import annotations

from dataclasses import replace

from llmserve.server.conversation.pieces import TurnEnd
from llmserve.types import Completion, FinishReason, Timings, Usage


class Ledger:
    """Adds up token counts and durations, and keeps the budget."""

    def __init__(self, max_tokens: int | None) -> None:
        self._max_tokens = max_tokens
        self._completions: list[Completion] = []
        self._reasoning_tokens = 0
        self._num_restored = 0

    @property
    def budget(self) -> int | None:
        """The tokens that are left; `None`: up to the context length."""
        if self._max_tokens is None:
            return None
        used = sum(completion.usage.completion_tokens for completion in self._completions)
        return max(0, self._max_tokens - used)

    def add(self, completion: Completion, *, is_reasoning: bool) -> None:
        """Takes in a segment."""
        self._completions.append(completion)
        if is_reasoning:
            self._reasoning_tokens += completion.usage.completion_tokens

    def drop(self, completion: Completion) -> None:
        """Takes in a segment whose tokens others replace."""
        self._completions.append(replace(completion, usage=replace(completion.usage, completion_tokens=0)))

    def restore(self, num_tokens: int) -> None:
        """Counts tokens of a dropped segment that are shown after all."""
        self._num_restored += num_tokens

    def end(self, reason: FinishReason, *, num_calls: int, is_complete: bool, stop: str | None) -> TurnEnd:
        """The turn's end."""
        usages = [completion.usage for completion in self._completions] or [Usage()]
        times = [completion.timings for completion in self._completions] or [Timings()]
        later_prefill = sum(timings.prefill_s for timings in times[1:])
        return TurnEnd(
            finish_reason=reason,
            is_complete=is_complete,
            num_calls=num_calls,
            usage=replace(
                usages[0],
                completion_tokens=sum(usage.completion_tokens for usage in usages) + self._num_restored,
                draft_tokens=sum(usage.draft_tokens for usage in usages),
                accepted_tokens=sum(usage.accepted_tokens for usage in usages),
            ),
            timings=replace(times[0], decode_s=sum(timings.decode_s for timings in times) + later_prefill),
            reasoning_tokens=self._reasoning_tokens,
            stop=stop,
            prompt=self._completions[0].prompt if self._completions else (),
        )
