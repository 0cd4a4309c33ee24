"""Pure functions of completions: fields -> the engine's parameters, the engine's refusals -> fields."""

from __future__ import annotations

from types import MappingProxyType
from typing import TypeVar

from llmserve.errors import ContextExceededError, InvalidParameterError
from llmserve.server.apis.completions.schema import MAX_SEED, CompletionOptions, CompletionRequest
from llmserve.server.generation.seeds import random_seed
from llmserve.server.refusals import FieldError
from llmserve.server.web.errors import Fault
from llmserve.types import ModelInfo, SamplingParams

Number = TypeVar("Number", int, float)

# The engine's own limit is 32 bits; nothing generates as many tokens.
_MAX_COUNT = 2**31 - 1

_NEVER_USED = ("length_penalty", "diversity_penalty", "kv_group_size")
_UNQUANTIZED = frozenset({"f32", "f16", "bf16"})
_KV_BITS = MappingProxyType(
    {"f32": 32, "f16": 16, "bf16": 16, "q8_0": 8, "q5_1": 5, "q5_0": 5, "q4_1": 4, "q4_0": 4, "iq4_nl": 4}
)

# Names of the engine's fields that differ on this wire.
_WIRE_NAMES = MappingProxyType(
    {
        "seed": "options.random_seed",
        "max_total_tokens": "options.max_kv_size",
        **{
            name: f"options.{name}"
            for name in (
                "min_p",
                "min_tokens_to_keep",
                "repetition_penalty",
                "no_repeat_ngram_size",
                "prefill_step_size",
            )
        },
    }
)


def sampling_params(request: CompletionRequest) -> SamplingParams:
    """The engine's parameters. A random seed is drawn here, so that a stream's head can name it.

    The result is meaningless for a request that generates nothing (``max_tokens`` 0).
    """
    options = request.options
    max_kv_size = _not_negative(options.max_kv_size)
    return SamplingParams(
        max_tokens=num_tokens_wanted(request) or None,
        temperature=_not_negative(request.temperature),
        top_k=_not_negative(request.top_k),
        top_p=_not_negative(request.top_p) or 1.0,
        min_p=_not_negative(options.min_p),
        min_tokens_to_keep=max(1, options.min_tokens_to_keep),
        repetition_penalty=options.repetition_penalty if options.repetition_penalty > 0 else 1.0,
        no_repeat_ngram_size=_not_negative(options.no_repeat_ngram_size),
        seed=random_seed(MAX_SEED) if options.random_seed == -1 else options.random_seed,
        max_total_tokens=max_kv_size or None,
        prefill_step_size=_not_negative(options.prefill_step_size) or None,
    )


def num_tokens_wanted(request: CompletionRequest) -> int:
    """How many tokens may be generated; 0: none."""
    return min(_not_negative(request.max_tokens), _MAX_COUNT)


def _not_negative(value: Number) -> Number:
    return max(value, type(value)(0))


def prompt_refusal(error: ContextExceededError, options: CompletionOptions) -> Exception:
    """The refusal of a prompt, by the limit that it exceeds: the engine names the context length for both."""
    limit = options.max_kv_size
    if error.context_length == limit < error.prompt_tokens:
        reason = f"must be at least the prompt's {error.prompt_tokens} tokens, got {limit}"
        return FieldError("options.max_kv_size", reason)
    return error


def ignored_options(options: CompletionOptions, info: ModelInfo) -> list[str]:
    """Options that were given and have no effect on this model."""
    names = [name for name in _NEVER_USED if getattr(options, name) is not None]
    if options.kv_bits is not None and not _is_kv_bits(options.kv_bits, info):
        names.append("kv_bits")
    is_quantized = not {info.kv_type_k, info.kv_type_v} <= _UNQUANTIZED
    if options.quantized_kv_start is not None and not (is_quantized and options.quantized_kv_start <= 0):
        names.append("quantized_kv_start")
    return [f"options.{name}" for name in names]


def _is_kv_bits(bits: int, info: ModelInfo) -> bool:
    types = {info.kv_type_k, info.kv_type_v}
    if bits <= 0:  # no quantization
        return types <= _UNQUANTIZED
    return {_KV_BITS.get(name) for name in types} == {bits}


def fault_message(fault: Fault) -> str:
    """The message of a refusal, with fields as they are named on the wire."""
    if isinstance(fault.error, InvalidParameterError):
        field = fault.error.field
        if wire_name := _WIRE_NAMES.get(field):
            return wire_name + fault.message.removeprefix(field)
    return fault.message
