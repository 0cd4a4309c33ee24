"""Wire types of llama-server's `/completion`. Defaults are llama-server's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from llmserve.server.apis.openai.schema import (
    RESPONSE_FORMAT,
    GenerationFields,
    openai_sampling,
    token_limit,
)
from llmserve.server.fields.refused import Refusals
from llmserve.server.fields.samplers import NATIVE_SAMPLERS
from llmserve.server.fields.sampling import MAX_COUNT
from llmserve.server.web.fields import Field, Values
from llmserve.server.web.token_kinds import PROMPTS, Prompts

NATIVE_SAMPLING = openai_sampling(
    {
        "temperature": 0.8,
        "top_k": 40,
        "top_p": 0.95,
        "min_p": 0.05,
        "repeat_last_n": 64,
        "samplers": NATIVE_SAMPLERS,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeCompletionRequest(GenerationFields):
    """A completion of one prompt. Null counts as absent."""

    prompt: Annotated[
        Prompts,
        Field("A text or token ids, unchanged.", kind=PROMPTS, example="Once upon a time"),
    ]
    model: Annotated[str | None, Field("A model's id; by default the first of `GET /v1/models`.")] = None
    n_predict: Annotated[
        int | None,
        Field(
            "Maximum number of tokens; by default and with -1 up to the context length.",
            engine="max_tokens",
            example=64,
            minimum=-1,
            maximum=MAX_COUNT,
        ),
    ] = None
    max_tokens: Annotated[
        int | None,
        Field("Another name of `n_predict`, which counts if both are given.", minimum=-1, maximum=MAX_COUNT),
    ] = None
    stream: Annotated[bool, Field("Answer with server-sent events.")] = False
    sampling: Annotated[Values, NATIVE_SAMPLING] = field(default_factory=dict)
    response_format: Annotated[Mapping[str, Any] | None, RESPONSE_FORMAT] = None
    return_tokens: Annotated[bool, Field("Give the ids of the tokens as well.")] = False
    foreign: ClassVar = Refusals()

    @property
    def num_tokens_wanted(self) -> int:
        """The limit on tokens; -1 is the context length."""
        given = token_limit(self)
        return -1 if given is None else given
