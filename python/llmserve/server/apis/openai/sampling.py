"""The wire's sampling fields as the engine's parameters."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import orjson

from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.openai.schema import RANDOM_SEED, SamplingFields
from llmserve.server.conversation import closed
from llmserve.server.refusals import FieldError
from llmserve.server.web.schema import kind_of

_SEED_BITS = 53
"""Random seeds are whole numbers that every JSON reader keeps (RFC 8259, section 6)."""

# `top_p` 0 keeps the likeliest token; the engine takes only what is above 0.
_LEAST_TOP_P = 1e-6


def sampling_params(
    fields: SamplingFields, *, max_tokens: int | None, logprobs: int | None, json_schema: str | None
) -> SamplingParams:
    """The engine's parameters of the first choice. A random seed is drawn here.

    Raises:
        InvalidParameterError: What the engine does not take, by its own name.
        FieldError: A field that is refused.
    """
    repetition_penalty = fields.repetition_penalty
    return SamplingParams(
        max_tokens=None if max_tokens == -1 else max_tokens,
        temperature=fields.temperature,
        top_k=max(0, fields.top_k),
        top_p=max(fields.top_p, _LEAST_TOP_P),
        min_p=fields.min_p,
        repetition_penalty=fields.repeat_penalty if repetition_penalty is None else repetition_penalty,
        frequency_penalty=fields.frequency_penalty,
        presence_penalty=fields.presence_penalty,
        logit_bias=fields.logit_bias,
        seed=secrets.randbits(_SEED_BITS) if fields.seed == RANDOM_SEED else fields.seed,
        min_tokens=fields.min_tokens,
        ignore_eos=fields.ignore_eos,
        stop=fields.stop,
        json_schema=json_schema,
        logprobs=logprobs,
        cache_prompt=fields.cache_prompt,
    )


def json_schema_of(response_format: Mapping[str, Any] | None, field: str = "response_format") -> str | None:
    """The JSON Schema, as text, that a response format asks for; `None` for free text.

    Raises:
        FieldError: It is no response format.
    """
    if response_format is None:
        return None
    kind = response_format.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        # llama-server takes a schema here.
        return schema_text(response_format.get("schema", {"type": "object"}), f"{field}.schema")
    if kind == "json_schema":
        return _inner_schema(response_format, field)
    shown = repr(kind[:32]) if isinstance(kind, str) else kind_of(kind)
    raise FieldError(f"{field}.type", f"must be text, json_object or json_schema, got {shown}")


def _inner_schema(response_format: Mapping[str, Any], field: str) -> str:
    inner = response_format.get("json_schema")
    if inner is None:
        raise FieldError(f"{field}.json_schema", "is required")
    if not isinstance(inner, dict):
        raise FieldError(f"{field}.json_schema", f"must be an object, got {kind_of(inner)}")
    if inner.get("schema") is None:
        raise FieldError(f"{field}.json_schema.schema", "is required")
    return schema_text(inner["schema"], f"{field}.json_schema.schema")


def schema_text(schema: Any, field: str) -> str:
    """A schema as text; its properties keep their order."""
    if not isinstance(schema, dict | bool):
        raise FieldError(field, f"must be an object, got {kind_of(schema)}")
    return orjson.dumps(closed(schema)).decode()


def ignored_fields(fields: SamplingFields, params: SamplingParams) -> list[str]:
    """Known fields that were given and have no effect in this request."""
    ignored = []
    if fields.stop and params.json_schema is not None:
        ignored.append("stop")
    if fields.stream_options.include_usage and not fields.stream:
        ignored.append("stream_options")
    return ignored
