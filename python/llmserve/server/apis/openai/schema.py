"""Wire types that the OpenAI dialect's routes share. The field names exist here only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from llmserve.server.apis.openai.readers import (
    LOGIT_BIAS_SCHEMA,
    OBJECT_SCHEMA,
    read_logit_bias,
    read_object,
)
from llmserve.server.web.readers import TEXTS_SCHEMA, read_texts
from llmserve.server.web.schema import Field

MAX_SEED = 2**64 - 1
RANDOM_SEED = -1
MAX_CHOICES = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """What a stream has beside the output."""

    include_usage: Annotated[
        bool, Field("Send one more chunk, without choices, that has the token counts.")
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingFields:
    """How tokens are drawn. The fields below `seed` are those of llama-server and vLLM."""

    model: Annotated[str, Field("A model's id, as `GET /v1/models` lists them.", non_empty=True)]
    temperature: Annotated[float, Field("0 is greedy.", minimum=0, maximum=1e6)] = 1.0
    top_p: Annotated[float, Field("Nucleus sampling; 1 is off.", minimum=0, maximum=1)] = 1.0
    frequency_penalty: Annotated[
        float, Field("Subtracted for each occurrence in the output.", minimum=-100, maximum=100)
    ] = 0.0
    presence_penalty: Annotated[
        float, Field("Subtracted once for tokens of the output.", minimum=-100, maximum=100)
    ] = 0.0
    logit_bias: Annotated[
        Mapping[int, float],
        Field(
            "Added to the logits of tokens, by their ids: -100 to 100.",
            read=read_logit_bias,
            schema=LOGIT_BIAS_SCHEMA,
        ),
    ] = field(default_factory=dict)
    stop: Annotated[
        tuple[str, ...], Field("Texts that end the output.", read=read_texts, schema=TEXTS_SCHEMA)
    ] = ()
    seed: Annotated[
        int,
        Field(
            "Keys the draws, with the choice's index. -1 = random; the one used is in X-LLMServe-Seed.",
            minimum=RANDOM_SEED,
            maximum=MAX_SEED,
        ),
    ] = RANDOM_SEED
    n: Annotated[int, Field("How many choices.", minimum=1, maximum=MAX_CHOICES)] = 1
    stream: Annotated[bool, Field("Answer with server-sent events.")] = False
    stream_options: Annotated[StreamOptions, Field("For streams.")] = field(default_factory=StreamOptions)
    top_k: Annotated[
        int, Field("Keep so many of the likeliest tokens; 0 and -1 are off.", minimum=-1, maximum=2**31 - 1)
    ] = 0
    min_p: Annotated[
        float,
        Field("Keep tokens with this share of the likeliest one's probability.", minimum=0, maximum=1),
    ] = 0.0
    repeat_penalty: Annotated[
        float, Field("Penalty for tokens of prompt and output; 1 is off.", minimum=0.001, maximum=1000)
    ] = 1.0
    repetition_penalty: Annotated[
        float | None, Field("The same under vLLM's name.", minimum=0.001, maximum=1000)
    ] = None
    ignore_eos: Annotated[bool, Field("Go on where the model would end.")] = False
    min_tokens: Annotated[
        int, Field("The model cannot end before so many tokens.", minimum=0, maximum=2**31 - 1)
    ] = 0
    cache_prompt: Annotated[bool, Field("Reuse what is computed of an equal prompt.")] = True
    response_format: Annotated[
        Mapping[str, Any] | None,
        Field(
            "`{type: text}`, `{type: json_object}` or `{type: json_schema, json_schema: {schema}}`. The "
            "output is always held to it.",
            read=read_object,
            schema=OBJECT_SCHEMA,
        ),
    ] = None
    prompt_cache_key: Annotated[str | None, Field("Accepted: equal prefixes are found without it.")] = None
    grammar: Annotated[
        str | None,
        Field(
            "llama-server's: a grammar of the output, in GBNF (told by a `::=`) or llguidance's Lark. Not "
            "beside `response_format`."
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAiErrorDetail:
    """What went wrong."""

    message: Annotated[str, Field("In words.")]
    type: Annotated[str, Field("The kind.", example="invalid_request_error")]
    param: Annotated[str | None, Field("The field that is wrong.")]
    code: Annotated[str | None, Field("A stable name.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAiError:
    """Why a request was refused or failed."""

    error: Annotated[OpenAiErrorDetail, Field("The error.")]
