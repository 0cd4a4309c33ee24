"""What answers of all generation routes have in common."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from llmserve.server.apis.openai import errors
from llmserve.server.conversation import TurnEnd
from llmserve.server.web.errors import fault_of
from llmserve.server.web.sse import data_frame
from llmserve.types import Completion


@dataclass(frozen=True, slots=True)
class Envelope:
    """The fields around the choices."""

    kind: str
    """`object` of a whole answer."""
    prefix: str
    """The beginning of the id."""
    model: str
    fingerprint: str
    """The fingerprint of the weights."""
    id: str = field(default_factory=lambda: secrets.token_hex(12))
    created: int = field(default_factory=lambda: int(time.time()))

    def fields(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        """An answer, or a chunk of one."""
        return {
            "id": f"{self.prefix}-{self.id}",
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": f"fp_{self.fingerprint[:12]}",
            "choices": choices,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Token counts and durations (in seconds) of one choice."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    reasoning_tokens: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    prefill_s: float = 0.0
    decode_s: float = 0.0


def completion_cost(completion: Completion) -> Cost:
    """The cost of one request."""
    usage, timings = completion.usage, completion.timings
    return Cost(
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=usage.cached_tokens,
        completion_tokens=usage.completion_tokens,
        draft_tokens=usage.draft_tokens,
        accepted_tokens=usage.accepted_tokens,
        prefill_s=timings.prefill_s,
        decode_s=timings.decode_s,
    )


def turn_cost(end: TurnEnd) -> Cost:
    """The cost of a turn."""
    return Cost(
        prompt_tokens=end.prompt_tokens,
        cached_tokens=end.cached_tokens,
        completion_tokens=end.completion_tokens,
        reasoning_tokens=end.reasoning_tokens,
        draft_tokens=end.draft_tokens,
        accepted_tokens=end.accepted_tokens,
        prefill_s=end.prefill_s,
        decode_s=end.decode_s,
    )


def usage(costs: Mapping[int, list[Cost]]) -> dict[str, Any]:
    """`usage`: each prompt (the keys) counts once, and so does each of its choices."""
    every = [cost for group in costs.values() for cost in group]
    prompt_tokens = sum(group[0].prompt_tokens for group in costs.values())
    completion_tokens = sum(cost.completion_tokens for cost in every)
    accepted = sum(cost.accepted_tokens for cost in every)
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": {"cached_tokens": sum(group[0].cached_tokens for group in costs.values())},
        "completion_tokens_details": {
            "reasoning_tokens": sum(cost.reasoning_tokens for cost in every),
            "accepted_prediction_tokens": accepted,
            "rejected_prediction_tokens": sum(cost.draft_tokens for cost in every) - accepted,
        },
    }


def timings(cost: Cost) -> dict[str, Any]:
    """llama-server's `timings`, in milliseconds and tokens a second."""
    num_computed = cost.prompt_tokens - cost.cached_tokens
    return {
        "cache_n": cost.cached_tokens,
        "prompt_n": num_computed,
        **_rate("prompt", num_computed, cost.prefill_s),
        "predicted_n": cost.completion_tokens,
        **_rate("predicted", cost.completion_tokens, cost.decode_s),
        **_drafts(cost),
    }


def _drafts(cost: Cost) -> dict[str, int]:
    """As in llama-server, present only if something was drafted."""
    if not cost.draft_tokens:
        return {}
    return {"draft_n": cost.draft_tokens, "draft_n_accepted": cost.accepted_tokens}


def _rate(name: str, num_tokens: int, seconds: float) -> dict[str, float]:
    return {
        f"{name}_ms": round(seconds * 1000, 3),
        f"{name}_per_token_ms": round(seconds * 1000 / num_tokens, 3) if num_tokens else 0.0,
        f"{name}_per_second": round(num_tokens / seconds, 3) if seconds else 0.0,
    }


def frame(value: object) -> bytes:
    """A chunk as an event."""
    return data_frame(orjson.dumps(value))


def render_error(error: Exception) -> bytes:
    """The last event of a stream that failed."""
    return frame(errors.render(fault_of(error, errors.DIALECT)))
