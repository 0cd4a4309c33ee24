"""The wire's sampling fields as the engine's parameters."""

from __future__ import annotations

from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.openai.schema import OPENAI_SAMPLING, GenerationFields, SamplingFields, token_limit
from llmserve.server.fields import sampling
from llmserve.server.refusals import FieldError
from llmserve.server.web.fields import Values, wire_name


def sampling_params(
    values: Values, *, max_tokens: int | None, logprobs: int | None, prompt_logprobs: int | None = None
) -> SamplingParams:
    """The engine's parameters of the first choice, without its constraint and what the model decides.

    Raises:
        InvalidParameterError: A value that the engine refuses, under its own name.
    """
    values = {**OPENAI_SAMPLING.defaults(), **values}
    biases = values.get("logit_bias", {})
    by_id = {token: bias for token, bias in biases.items() if isinstance(token, int)}
    return sampling.sampling_params(
        {**values, "top_k": max(0, values.get("top_k", 0)), "logit_bias": by_id},
        max_tokens=None if max_tokens == -1 else max_tokens,
        logprobs=logprobs,
        prompt_logprobs=prompt_logprobs,
    )


def turn_limit(fields: GenerationFields) -> int | None:
    """The limit on tokens of an assistant's turn, which has one at least.

    Raises:
        FieldError: The limit is 0.
    """
    if (limit := token_limit(fields)) == 0:
        reason = "must be at least 1, or -1 for the context length, got 0"
        raise FieldError(wire_name(fields, "max_tokens"), reason, limit=1)
    return limit


def check_prompt_logprobs(prompt_logprobs: int | None, *, is_stream: bool) -> None:
    """Refuses what has no place in a stream's events, as vLLM does.

    Raises:
        FieldError: The request is a stream.
    """
    if prompt_logprobs is not None and is_stream:
        raise FieldError("prompt_logprobs", "cannot be used with stream")


def ignored_fields(fields: SamplingFields, params: SamplingParams, num_texts: int = 1) -> list[str]:
    """Known fields that were given and have no effect in this request."""
    ignored = ignored_stops(params)
    if fields.stream_options.include_usage and not fields.stream:
        ignored.append("stream_options")
    if fields.id_slot >= 0 and num_texts > 1:
        ignored.append("id_slot")
    if not fields.stream:
        ignored += [name for name in ("return_progress", "timings_per_token") if getattr(fields, name)]
    return ignored


def ignored_stops(params: SamplingParams) -> list[str]:
    """What would end a text, but not a document."""
    if params.json_schema is None:
        return []
    return [name for name in ("stop", "stop_token_ids") if getattr(params, name)]
