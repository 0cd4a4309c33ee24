"""Wire types of `/v1/completions`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from llmserve.server.apis.openai.schema import SamplingFields
from llmserve.server.fields.sampling import MAX_COUNT
from llmserve.server.web.field_kinds import unchecked
from llmserve.server.web.fields import Field
from llmserve.server.web.token_kinds import PROMPTS, Prompts

DEFAULT_MAX_TOKENS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAiCompletionRequest(SamplingFields):
    """A completion of one prompt or several. Null counts as absent."""

    prompt: Annotated[
        Prompts,
        Field(
            "Texts or token ids, as they are: the text of control tokens is read as control tokens.",
            kind=PROMPTS,
        ),
    ]
    max_tokens: Annotated[
        int,
        Field(
            "The most tokens; -1: up to the context length. 0 generates nothing, for `echo`.",
            minimum=-1,
            maximum=MAX_COUNT,
        ),
    ] = DEFAULT_MAX_TOKENS
    best_of: Annotated[int | None, Field("Must be `n` where it is given.")] = None
    echo: Annotated[bool, Field("Begin the text with the prompt.")] = False
    logprobs: Annotated[
        int | None,
        Field("Log-probabilities, with so many alternatives each.", minimum=0, maximum=100),
    ] = None
    suffix: Annotated[
        Any, Field("Refused: models are prompted as they are.", kind=unchecked({"type": "string"}))
    ] = None
    json_schema: Annotated[
        Any, Field("llama-server's: a JSON Schema of the output.", kind=unchecked({"type": "object"}))
    ] = None
