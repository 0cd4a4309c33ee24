"""The wire's sampling fields as the engine's parameters."""

from __future__ import annotations

from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.openai.schema import SamplingFields
from llmserve.server.fields import sampling
from llmserve.server.web.fields import Values


def sampling_params(
    values: Values, *, max_tokens: int | None, logprobs: int | None, json_schema: str | None
) -> SamplingParams:
    """The engine's parameters of the first choice.

    Raises:
        InvalidParameterError: A value that the engine refuses, under its own name.
    """
    return sampling.sampling_params(
        {**values, "top_k": max(0, values.get("top_k", 0))},
        max_tokens=None if max_tokens == -1 else max_tokens,
        json_schema=json_schema,
        logprobs=logprobs,
    )


def ignored_fields(fields: SamplingFields, params: SamplingParams) -> list[str]:
    """Known fields that were given and have no effect in this request."""
    ignored = []
    if params.stop and params.json_schema is not None:
        ignored.append("stop")
    if fields.stream_options.include_usage and not fields.stream:
        ignored.append("stream_options")
    return ignored
