"""Pure functions of the Llamatik dialect: wire -> request, events -> wire."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import orjson

from llmserve.errors import BudgetTooSmallError, InvalidParameterError, LoadError
from llmserve.model_config import ModelConfig
from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.llamatik.answers import (
    TextAnswer,
    TimingsAnswer,
    UsageAnswer,
)
from llmserve.server.apis.llamatik.schema import (
    LOAD_FIELDS,
    AnyGenerationRequest,
    ContextRequest,
    JsonContextRequest,
    JsonPromptRequest,
    ParamsFields,
    SamplingFields,
)
from llmserve.server.generation.seeds import random_seed
from llmserve.server.refusals import FieldError
from llmserve.server.web.errors import Fault
from llmserve.server.web.schema import dump, wire_name
from llmserve.server.web.sse import data_frame
from llmserve.types import Completion, Delta, ModelInfo

RANDOM_SEED = -1

DEFAULT_SAMPLING = SamplingFields(
    temperature=0.7,
    max_tokens=512,
    top_p=0.95,
    top_k=40,
    repeat_penalty=1.1,
    seed=RANDOM_SEED,
    min_p=0.0,
    stop=(),
    frequency_penalty=0.0,
    presence_penalty=0.0,
)
"""The values of the document's example, and no effect for the extensions."""

# `top_p` 0 keeps the likeliest token; the engine takes only what is above 0.
_LEAST_TOP_P = 1e-6

# The engine's names of fields that are called otherwise here.
_ATTRIBUTES: Mapping[str, str] = MappingProxyType(
    {"repetition_penalty": "repeat_penalty", "threads": "num_threads"}
)


def merged(base: SamplingFields, given: SamplingFields) -> SamplingFields:
    """``base`` with the fields that are given."""
    fields = {field.name: getattr(given, field.name) for field in dataclasses.fields(SamplingFields)}
    return dataclasses.replace(base, **{name: value for name, value in fields.items() if value is not None})


def sampling_params(values: SamplingFields, json_schema: str | bool | None = None) -> SamplingParams:
    """The engine's parameters of a whole set of fields. A random seed is drawn here.

    Raises:
        InvalidParameterError: What the engine does not take, by its own name.
    """
    if values.top_p is None or values.repeat_penalty is None or values.stop is None:
        raise ValueError("the fields are not a whole set")
    return SamplingParams(
        max_tokens=values.max_tokens,
        temperature=values.temperature or 0.0,
        top_k=values.top_k or 0,
        top_p=max(values.top_p, _LEAST_TOP_P),
        min_p=values.min_p or 0.0,
        repetition_penalty=values.repeat_penalty,
        frequency_penalty=values.frequency_penalty or 0.0,
        presence_penalty=values.presence_penalty or 0.0,
        seed=random_seed() if values.seed == RANDOM_SEED else values.seed,
        stop=values.stop,
        json_schema=json_schema,
    )


def json_schema(request: AnyGenerationRequest) -> str | bool | None:
    """What the answer must be: a schema as text, ``True`` for any JSON value, or ``None`` for any text."""
    if not isinstance(request, JsonPromptRequest | JsonContextRequest):
        return None
    given = request.json_schema
    if isinstance(given, dict):
        return orjson.dumps(given).decode()
    return True if given is None else given


def load_options(given: ParamsFields) -> dict[str, Any]:
    """The load options that are given, by their names here."""
    options = {name: getattr(given, name) for name in LOAD_FIELDS}
    return {name: value for name, value in options.items() if value is not None}


def model_config(base: ModelConfig, options: Mapping[str, Any]) -> ModelConfig:
    """``base`` with load options by their names here."""
    changes = dict(options)
    if "num_threads" in changes:
        changes["threads"] = changes.pop("num_threads")
    if changes.get("gpu_layers") == -1:
        changes["gpu_layers"] = None
    return dataclasses.replace(base, **changes)


def values_in_force(sampling: SamplingFields, config: ModelConfig, info: ModelInfo | None) -> dict[str, Any]:
    """The answer of ``GET params``. What the engine chose is known once a model is loaded; null before."""
    load = ParamsFields(
        context_length=info.context_length if info else config.context_length,
        num_threads=info.num_threads if info else config.threads,
        use_mmap=config.use_mmap,
        flash_attention=config.flash_attention,
        batch_size=config.batch_size,
        gpu_layers=-1 if config.gpu_layers is None else config.gpu_layers,
    )
    values = {field.name: getattr(sampling, field.name) for field in dataclasses.fields(SamplingFields)}
    answer = dump(dataclasses.replace(load, **values))
    if info is not None:
        answer |= {"backend": info.backend, "offloadedLayers": info.num_gpu_layers}
    return answer


def messages(request: ContextRequest) -> list[dict[str, str]]:
    """The system turn and the user turn.

    Raises:
        FieldError: There is no user turn.
    """
    parts = [part for part in (request.context_block, request.user_prompt) if part]
    if not parts:
        raise FieldError("userPrompt", "and contextBlock are both empty")
    turns = [{"role": "system", "content": request.system_prompt}] if request.system_prompt else []
    return [*turns, {"role": "user", "content": "\n\n".join(parts)}]


def answer(completion: Completion) -> dict[str, Any]:
    """The answer of a one-shot call."""
    return {"text": completion.text, **_end(completion)}


def delta_frame(delta: Delta) -> bytes:
    """The event of new text; nothing where there is none."""
    return data_frame(orjson.dumps({"event": "delta", "text": delta.text})) if delta.text else b""


def done_frame(completion: Completion) -> bytes:
    """The last event of a stream."""
    return data_frame(orjson.dumps({"event": "done", **_end(completion)}))


def error_frame(message: str) -> bytes:
    """The last event of a stream that failed."""
    return data_frame(orjson.dumps({"event": "error", "message": message}))


def _end(completion: Completion) -> dict[str, Any]:
    usage, timings = completion.usage, completion.timings
    whole = TextAnswer(
        text="",
        finish_reason=completion.finish_reason,
        usage=UsageAnswer(
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            cached_tokens=usage.cached_tokens,
            draft_tokens=usage.draft_tokens,
            accepted_tokens=usage.accepted_tokens,
        ),
        timings=TimingsAnswer(
            queue_ms=_milliseconds(timings.queue_s),
            prefill_ms=_milliseconds(timings.prefill_s),
            decode_ms=_milliseconds(timings.decode_s),
        ),
    )
    shown = dump(whole)
    del shown["text"]
    return {**shown, "usage": dump(whole.usage), "timings": dump(whole.timings)}


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)


def render_fault(fault: Fault) -> object:
    """``{"error": "..."}``."""
    return {"error": fault_message(fault)}


def fault_message(fault: Fault) -> str:
    """The message, with fields as they are named on this wire."""
    error, message = fault.error, fault.message
    if isinstance(error, InvalidParameterError):
        return _with_wire_name(message, error.field)
    if isinstance(error, BudgetTooSmallError):
        return _with_wire_name(message, "max_tokens")
    if isinstance(error, LoadError):
        if error.reason == "invalid_option":
            return _with_wire_name(message, message.partition(":")[0])
        return message.replace("`context_length`", f"`{wire_name(ParamsFields, 'context_length')}`")
    return message


def _with_wire_name(message: str, field: str) -> str:
    attribute = _ATTRIBUTES.get(field, field)
    name = "jsonSchema" if field == "json_schema" else wire_name(ParamsFields, attribute)
    return name + message.removeprefix(field) if message.startswith(field) else message
