"""The wire's sampling fields as the engine's parameters."""

from __future__ import annotations

from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.openai.schema import RANDOM_SEED, SamplingFields
from llmserve.server.generation.seeds import random_seed

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
        seed=random_seed() if fields.seed == RANDOM_SEED else fields.seed,
        min_tokens=fields.min_tokens,
        ignore_eos=fields.ignore_eos,
        stop=fields.stop,
        json_schema=json_schema,
        logprobs=logprobs,
        cache_prompt=fields.cache_prompt,
    )


def ignored_fields(fields: SamplingFields, params: SamplingParams) -> list[str]:
    """Known fields that were given and have no effect in this request."""
    ignored = []
    if fields.stop and params.json_schema is not None:
        ignored.append("stop")
    if fields.stream_options.include_usage and not fields.stream:
        ignored.append("stream_options")
    return ignored
