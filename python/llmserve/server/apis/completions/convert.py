"""Pure functions of completions: fields -> the engine's parameters, the engine's refusals -> fields."""

from __future__ import annotations

from types import MappingProxyType

from llmserve.errors import ContextExceededError
from llmserve.server.apis.completions.schema import SEED_BITS, CompletionOptions, CompletionRequest
from llmserve.server.fields import sampling
from llmserve.server.fields.sampling import MAX_COUNT
from llmserve.server.refusals import FieldError
from llmserve.types import ModelInfo, SamplingParams

_NEVER_USED = ("length_penalty", "diversity_penalty", "kv_group_size")
_UNQUANTIZED = frozenset({"f32", "f16", "bf16"})
_KV_BITS = MappingProxyType(
    {"f32": 32, "f16": 16, "bf16": 16, "q8_0": 8, "q5_1": 5, "q5_0": 5, "q4_1": 4, "q4_0": 4, "iq4_nl": 4}
)


def sampling_params(request: CompletionRequest) -> SamplingParams:
    """The engine's parameters. A random seed is drawn here, so that a stream's head can name it.

    The result is meaningless for a request that generates nothing (``max_tokens`` 0).
    """
    values = {**request.sampling, **request.options.sampling}
    # For each number, 0 stands for the engine's default.
    given = {
        name: value
        for name, value in values.items()
        if name == "seed" or type(value) not in (int, float) or value > 0
    }
    return sampling.sampling_params(given, seed_bits=SEED_BITS, max_tokens=num_tokens_wanted(request) or None)


def num_tokens_wanted(request: CompletionRequest) -> int:
    """How many tokens may be generated; 0 generates nothing."""
    return min(max(request.max_tokens, 0), MAX_COUNT)


def prompt_refusal(error: ContextExceededError, options: CompletionOptions) -> Exception:
    """The refusal of a prompt, by the limit that it exceeds: the engine names the context length for both."""
    limit = options.sampling.get("max_total_tokens", 0)
    if error.context_length == limit < error.prompt_tokens:
        reason = f"must be at least the prompt's {error.shown_tokens} tokens, got {limit}"
        return FieldError("options.max_kv_size", reason, limit=error.prompt_tokens)
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
