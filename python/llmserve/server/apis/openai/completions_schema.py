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
            "Texts or token ids, unchanged: the text of control tokens is read as control tokens.",
            kind=PROMPTS,
        ),
    ]
    max_tokens: Annotated[
        int,
        Field(
            "Maximum number of tokens; -1 for up to the context length. 0 generates nothing, for `echo`.",
            minimum=-1,
            maximum=MAX_COUNT,
        ),
    ] = DEFAULT_MAX_TOKENS
    best_of: Annotated[int | None, Field("Must equal `n` if given.")] = None
    echo: Annotated[bool, Field("Begin the text with the prompt.")] = False
    logprobs: Annotated[
        int | None,
        Field(
            "Give log-probabilities, with this number of alternatives for each token.", minimum=0, maximum=100
        ),
    ] = None
    suffix: Annotated[
        Any,
        Field(
            "Refused: put the model's own infill tokens into the prompt.", kind=unchecked({"type": "string"})
        ),
    ] = None
    json_schema: Annotated[
        Any, Field("A JSON Schema for the output, as in llama-server.", kind=unchecked({"type": "object"}))
    ] = None
