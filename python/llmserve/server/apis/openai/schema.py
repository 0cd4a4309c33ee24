"""Wire types that the OpenAI dialect's routes share. The field names exist here only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from llmserve.server.fields.sampling import RANDOM_SEED, SAMPLING
from llmserve.server.fields.table import Differences, group
from llmserve.server.web.field_kinds import OBJECT
from llmserve.server.web.fields import Entry, Field, Group, Values
from llmserve.server.web.token_kinds import LOGIT_BIAS_OR_PAIRS

MAX_CHOICES = 128

_PENALTY: Differences = {"minimum": 0.001, "maximum": 1000}

COMMON: Mapping[str, Differences] = {
    "temperature": {"maximum": 1e6, "default": 1.0, "example": None},
    "top_k": {"minimum": -1, "doc": "Keep the `k` likeliest tokens; 0 and -1 are off."},
    "repetition_penalty": {**_PENALTY, "wire": "repeat_penalty"},
    "seed": {"default": RANDOM_SEED},
    "logit_bias": {"kind": LOGIT_BIAS_OR_PAIRS},
    "ignore_eos": {},
    "cache_prompt": {},
}
"""How all routes of this dialect differ from the table."""

_VLLM_PENALTY = Entry(
    "repetition_penalty", float, Field("vLLM's name of `repeat_penalty`, which wins.", **_PENALTY)
)
_SAMPLING = Group((*group(SAMPLING, {**COMMON, "min_tokens": {}}).entries, _VLLM_PENALTY))


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """What a stream contains beside the output."""

    include_usage: Annotated[bool, Field("Send one more chunk, without choices, with the token counts.")] = (
        False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingFields:
    """How tokens are drawn, and how the answer is sent."""

    model: Annotated[str, Field("A model's id, as `GET /v1/models` lists them.", non_empty=True)]
    sampling: Annotated[Values, _SAMPLING] = field(default_factory=_SAMPLING.defaults)
    n: Annotated[int, Field("Number of choices.", minimum=1, maximum=MAX_CHOICES)] = 1
    stream: Annotated[bool, Field("Answer with server-sent events.")] = False
    stream_options: Annotated[StreamOptions, Field("For streams.")] = field(default_factory=StreamOptions)
    response_format: Annotated[
        Mapping[str, Any] | None,
        Field(
            "`{type: text}`, `{type: json_object}` or `{type: json_schema, json_schema: {schema}}`. The "
            "output always conforms to it.",
            engine="json_schema",
            kind=OBJECT,
        ),
    ] = None
    prompt_cache_key: Annotated[
        str | None, Field("Accepted without effect: equal prefixes are found without it.")
    ] = None
    grammar: Annotated[
        str | None,
        Field(
            "A grammar for the output, as in llama-server: GBNF (with a `::=`) or llguidance's Lark. Not "
            "beside `response_format`."
        ),
    ] = None
