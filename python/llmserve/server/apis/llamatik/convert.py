"""Pure functions of the Llamatik dialect: wire -> request, events -> wire."""

from __future__ import annotations

import dataclasses
from types import MappingProxyType
from typing import Any

import orjson

from llmserve.errors import LoadError
from llmserve.model_config import ModelConfig
from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.llamatik.answers import (
    TextAnswer,
    TimingsAnswer,
    UsageAnswer,
)
from llmserve.server.apis.llamatik.schema import (
    AnyGenerationRequest,
    ContextRequest,
    JsonContextRequest,
    JsonPromptRequest,
    NamedFields,
    ParamsFields,
)
from llmserve.server.fields.sampling import RANDOM_SEED
from llmserve.server.refusals import FieldError
from llmserve.server.web.errors import Fault
from llmserve.server.web.fields import Values, dump, wire_name
from llmserve.server.web.sse import data_frame
from llmserve.server.web.wire_names import in_wire_names
from llmserve.types import Completion, Delta, ModelInfo

DEFAULT_SAMPLING: Values = MappingProxyType(
    {
        "temperature": 0.7,
        "max_tokens": 512,
        "top_p": 0.95,
        "top_k": 40,
        "repetition_penalty": 1.1,
        "seed": RANDOM_SEED,
    }
)
"""The values of the document's example; other fields have no effect until they are given."""

_SERVERS_OWN_BELOW_1 = frozenset({"context_length", "threads", "batch_size"})
"""Load options for which 0, and -1 of `numThreads`, mean what the server has."""

_ENGINE_SAMPLING = dataclasses.asdict(SamplingParams())


def json_schema(request: AnyGenerationRequest) -> str | bool | None:
    """What the answer must be: a schema as text, ``True`` for any JSON value, or ``None`` for any text."""
    if not isinstance(request, JsonPromptRequest | JsonContextRequest):
        return None
    given = request.json_schema
    if isinstance(given, dict):
        return orjson.dumps(given).decode()
    return True if given is None else given


def model_config(base: ModelConfig, options: Values) -> ModelConfig:
    """``base`` with load options."""
    changes = {
        name: value
        for name, value in options.items()
        if name not in _SERVERS_OWN_BELOW_1 or value is None or value >= 1
    }
    if changes.get("gpu_layers") == -1:
        changes["gpu_layers"] = None
    return dataclasses.replace(base, **changes)


def values_in_force(sampling: Values, config: ModelConfig, info: ModelInfo | None) -> dict[str, Any]:
    """The answer of ``GET params``. The engine's choices are null until a model is loaded."""
    load = {
        **dataclasses.asdict(config),
        "gpu_layers": -1 if config.gpu_layers is None else config.gpu_layers,
    }
    if info is not None:
        load |= {"context_length": info.context_length, "threads": info.num_threads}
    answer = dump(ParamsFields(sampling={**_ENGINE_SAMPLING, **sampling}, loading=load))
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
    """The event of new text; empty if there is none."""
    return data_frame(orjson.dumps({"event": "delta", "text": delta.text})) if delta.text else b""


def done_frame(completion: Completion) -> bytes:
    """The last event of a stream."""
    return data_frame(orjson.dumps({"event": "done", **_end(completion)}))


def error_frame(message: str) -> bytes:
    """The last event of a stream that failed."""
    return data_frame(orjson.dumps({"event": "error", "message": message}))


def _end(completion: Completion) -> dict[str, Any]:
    timings = completion.timings
    whole = TextAnswer(
        text="",
        finish_reason=completion.finish_reason,
        usage=UsageAnswer(**dataclasses.asdict(completion.usage)),
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
    error = in_wire_names(fault.error, NamedFields)
    if error is not fault.error:
        return str(error)
    if isinstance(error, LoadError):
        return fault.message.replace("`context_length`", f"`{wire_name(ParamsFields, 'context_length')}`")
    return fault.message
