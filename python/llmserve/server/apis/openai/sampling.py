"""The wire's sampling fields as the engine's parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.openai.schema import SamplingFields
from llmserve.server.conversation import closed
from llmserve.server.fields import sampling
from llmserve.server.refusals import FieldError
from llmserve.server.web.fields import Values
from llmserve.server.web.schema import kind_of, shown


def sampling_params(
    values: Values, *, max_tokens: int | None, logprobs: int | None, json_schema: str | None
) -> SamplingParams:
    """The engine's parameters of the first choice.

    Raises:
        InvalidParameterError: What the engine does not take, by its own name.
    """
    return sampling.sampling_params(
        {**values, "top_k": max(0, values.get("top_k", 0))},
        max_tokens=None if max_tokens == -1 else max_tokens,
        json_schema=json_schema,
        logprobs=logprobs,
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
    raise FieldError(f"{field}.type", f"must be text, json_object or json_schema, got {shown(kind)}")


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
    if params.stop and params.json_schema is not None:
        ignored.append("stop")
    if fields.stream_options.include_usage and not fields.stream:
        ignored.append("stream_options")
    return ignored
