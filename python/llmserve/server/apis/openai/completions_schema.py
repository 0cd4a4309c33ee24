"""Wire types of `/v1/completions`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from llmserve.server.apis.openai.readers import OBJECT_SCHEMA, PROMPT_SCHEMA, Prompts, read_any, read_prompts
from llmserve.server.apis.openai.schema import SamplingFields
from llmserve.server.web.schema import Field

DEFAULT_MAX_TOKENS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAiCompletionRequest(SamplingFields):
    """A completion of one prompt or several. Null counts as absent."""

    prompt: Annotated[
        Prompts,
        Field(
            "Texts or token ids, as they are: the text of control tokens is read as control tokens.",
            read=read_prompts,
            schema=PROMPT_SCHEMA,
        ),
    ]
    max_tokens: Annotated[
        int,
        Field(
            "The most tokens; -1: up to the context length. 0 generates nothing, for `echo`.",
            minimum=-1,
            maximum=2**31 - 1,
        ),
    ] = DEFAULT_MAX_TOKENS
    best_of: Annotated[int | None, Field("Must be `n` where it is given.")] = None
    echo: Annotated[bool, Field("Begin the text with the prompt.")] = False
    logprobs: Annotated[
        int | None,
        Field("Log-probabilities, with so many alternatives each.", minimum=0, maximum=100),
    ] = None
    suffix: Annotated[
        Any, Field("Refused: models are prompted as they are.", read=read_any, schema={"type": "string"})
    ] = None
    json_schema: Annotated[
        Any, Field("llama-server's: a JSON Schema of the output.", read=read_any, schema=OBJECT_SCHEMA)
    ] = None
