"""What answers of all generation routes have in common."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from llmserve.server.error_shapes import openai as errors
from llmserve.server.web.errors import fault_of
from llmserve.server.web.sse import data_frame
from llmserve.types import Timings, Usage


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


def usage(usages: Mapping[int, list[Usage]], reasoning_tokens: int = 0) -> dict[str, Any]:
    """`usage`: each prompt (the keys) counts once, and so does each of its choices."""
    every = [counts for group in usages.values() for counts in group]
    prompt_tokens = sum(group[0].prompt_tokens for group in usages.values())
    completion_tokens = sum(counts.completion_tokens for counts in every)
    accepted = sum(counts.accepted_tokens for counts in every)
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": {"cached_tokens": sum(group[0].cached_tokens for group in usages.values())},
        "completion_tokens_details": {
            "reasoning_tokens": reasoning_tokens,
            "accepted_prediction_tokens": accepted,
            "rejected_prediction_tokens": sum(counts.draft_tokens for counts in every) - accepted,
        },
    }


def timings(counts: Usage, times: Timings) -> dict[str, Any]:
    """llama-server's `timings`, in milliseconds and tokens a second."""
    num_computed = counts.prompt_tokens - counts.cached_tokens
    return {
        "cache_n": counts.cached_tokens,
        "prompt_n": num_computed,
        **_rate("prompt", num_computed, times.prefill_s),
        "predicted_n": counts.completion_tokens,
        # The first token comes with the prompt's last step.
        **_rate("predicted", max(0, counts.completion_tokens - 1), times.decode_s),
        **_drafts(counts),
    }


def _drafts(counts: Usage) -> dict[str, int]:
    """As in llama-server, present only if something was drafted."""
    if not counts.draft_tokens:
        return {}
    return {"draft_n": counts.draft_tokens, "draft_n_accepted": counts.accepted_tokens}


def _rate(name: str, num_tokens: int, seconds: float) -> dict[str, float]:
    return {
        f"{name}_ms": seconds * 1000,
        f"{name}_per_token_ms": seconds * 1000 / num_tokens if num_tokens else 0.0,
        f"{name}_per_second": num_tokens / seconds if seconds else 0.0,
    }


def frame(value: object) -> bytes:
    """A chunk as an event."""
    return data_frame(orjson.dumps(value))


def render_error(error: Exception) -> bytes:
    """The last event of a stream that failed."""
    return frame(errors.render(fault_of(error, errors.DIALECT)))
