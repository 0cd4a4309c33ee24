"""Wire types of llama-server's `/completion`. Defaults are llama-server's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from llmserve.server.apis.openai.readers import (
    LOGIT_BIAS_SCHEMA,
    OBJECT_SCHEMA,
    PROMPT_SCHEMA,
    Prompts,
    read_any,
    read_logit_bias,
    read_prompts,
)
from llmserve.server.apis.openai.schema import MAX_SEED, RANDOM_SEED
from llmserve.server.web.readers import TEXTS_SCHEMA, read_texts
from llmserve.server.web.schema import Field

_INT_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeCompletionRequest:
    """A completion of one prompt. Null counts as absent."""

    prompt: Annotated[
        Prompts,
        Field("A text or token ids, as they are.", read=read_prompts, schema=PROMPT_SCHEMA),
    ]
    model: Annotated[str | None, Field("A model's id. Absent: the first of `GET /v1/models`.")] = None
    n_predict: Annotated[
        int, Field("The most tokens; -1: up to the context length.", minimum=-1, maximum=_INT_MAX)
    ] = -1
    stream: Annotated[bool, Field("Answer with server-sent events.")] = False
    temperature: Annotated[float, Field("0 is greedy.", minimum=0, maximum=1e6)] = 0.8
    top_k: Annotated[
        int, Field("Keep so many of the likeliest tokens; 0 and -1 are off.", minimum=-1, maximum=_INT_MAX)
    ] = 40
    top_p: Annotated[float, Field("Nucleus sampling; 1 is off.", minimum=0, maximum=1)] = 0.95
    min_p: Annotated[
        float,
        Field("Keep tokens with this share of the likeliest one's probability.", minimum=0, maximum=1),
    ] = 0.05
    repeat_penalty: Annotated[
        float, Field("Penalty for tokens of prompt and output; 1 is off.", minimum=0.001, maximum=1000)
    ] = 1.0
    presence_penalty: Annotated[
        float, Field("Subtracted once for tokens of the output.", minimum=-100, maximum=100)
    ] = 0.0
    frequency_penalty: Annotated[
        float, Field("Subtracted for each occurrence in the output.", minimum=-100, maximum=100)
    ] = 0.0
    logit_bias: Annotated[
        Mapping[int, float],
        Field("Added to the logits of tokens.", read=read_logit_bias, schema=LOGIT_BIAS_SCHEMA),
    ] = field(default_factory=dict)
    stop: Annotated[
        tuple[str, ...], Field("Texts that end the output.", read=read_texts, schema=TEXTS_SCHEMA)
    ] = ()
    seed: Annotated[int, Field("Keys the draws. -1 = random.", minimum=RANDOM_SEED, maximum=MAX_SEED)] = (
        RANDOM_SEED
    )
    ignore_eos: Annotated[bool, Field("Go on where the model would end.")] = False
    cache_prompt: Annotated[bool, Field("Reuse what is computed of an equal prompt.")] = True
    grammar: Annotated[str | None, Field("A grammar of the output, in GBNF or llguidance's Lark.")] = None
    json_schema: Annotated[
        Any, Field("A JSON Schema of the output; not beside `grammar`.", read=read_any, schema=OBJECT_SCHEMA)
    ] = None
    return_tokens: Annotated[bool, Field("Give the ids of the tokens, too.")] = False
