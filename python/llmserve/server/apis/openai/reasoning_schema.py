"""Wire types of how long a model may reason, in the spellings of llama-server, vLLM and Qwen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from llmserve.server.conversation import ReasoningLimit
from llmserve.server.fields.sampling import MAX_COUNT
from llmserve.server.refusals import FieldError, FieldTooLongError
from llmserve.server.web.fields import Field

MAX_MESSAGE_BYTES = 1024
_LIMITS = (
    "thinking_budget_tokens",
    "reasoning_budget_tokens",
    "reasoning_budget",
    "thinking_token_budget",
    "thinking_budget",
)


def _named_by(server: str) -> Field:
    return Field(f"{server} name of `thinking_budget_tokens`.", minimum=-1, maximum=MAX_COUNT)


@dataclass(frozen=True, kw_only=True)  # Python gives slots to one base of a class only
class ReasoningFields:
    """The limit on reasoning. Null and -1 count as absent."""

    thinking_budget_tokens: Annotated[
        int | None,
        Field(
            "After how many tokens reasoning is closed, so that the answer still comes; 0: at once. -1: as "
            "the server's setting `LLMSERVE_REASONING_BUDGET` says.",
            minimum=-1,
            maximum=MAX_COUNT,
        ),
    ] = None
    reasoning_budget_tokens: Annotated[int | None, _named_by("llama-server's other")] = None
    reasoning_budget: Annotated[int | None, _named_by("Another")] = None
    thinking_token_budget: Annotated[int | None, _named_by("vLLM's")] = None
    thinking_budget: Annotated[int | None, _named_by("Qwen's")] = None
    reasoning_budget_message: Annotated[
        str | None,
        Field(
            "llama-server's: text that is inserted at the end of reasoning that is closed at its limit, "
            f"at most {MAX_MESSAGE_BYTES} bytes."
        ),
    ] = None

    @property
    def reasoning_limit(self) -> ReasoningLimit:
        """The limit.

        Raises:
            FieldTooLongError: The message would leave no room for the answer.
            FieldError: Two fields give different limits.
        """
        message = self.reasoning_budget_message
        if message is not None and len(message.encode()) > MAX_MESSAGE_BYTES:
            raise FieldTooLongError("reasoning_budget_message", MAX_MESSAGE_BYTES)
        given = {name: limit for name in _LIMITS if (limit := getattr(self, name)) is not None and limit >= 0}
        for name, limit in given.items():
            first = next(iter(given))
            if limit != given[first]:
                raise FieldError(name, f"cannot differ from {first}: both limit the reasoning")
        return ReasoningLimit(next(iter(given.values()), None), message)
