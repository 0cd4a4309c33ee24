"""Wire types of llama-server's `/completion`. Defaults are llama-server's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from llmserve.server.apis.openai.schema import COMMON
from llmserve.server.fields.sampling import MAX_COUNT, SAMPLING
from llmserve.server.fields.table import group
from llmserve.server.web.field_kinds import unchecked
from llmserve.server.web.fields import Field, Values
from llmserve.server.web.token_kinds import PROMPTS, Prompts

_SAMPLING = group(
    SAMPLING,
    {
        **COMMON,
        "temperature": {**COMMON["temperature"], "default": 0.8},
        "top_k": {**COMMON["top_k"], "default": 40},
        "top_p": {"default": 0.95},
        "min_p": {"default": 0.05},
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeCompletionRequest:
    """A completion of one prompt. Null counts as absent."""

    prompt: Annotated[
        Prompts,
        Field("A text or token ids, unchanged.", kind=PROMPTS),
    ]
    model: Annotated[str | None, Field("A model's id; by default the first of `GET /v1/models`.")] = None
    n_predict: Annotated[
        int,
        Field(
            "Maximum number of tokens; -1 for up to the context length.",
            engine="max_tokens",
            minimum=-1,
            maximum=MAX_COUNT,
        ),
    ] = -1
    stream: Annotated[bool, Field("Answer with server-sent events.")] = False
    sampling: Annotated[Values, _SAMPLING] = field(default_factory=_SAMPLING.defaults)
    grammar: Annotated[str | None, Field("A grammar for the output, in GBNF or llguidance's Lark.")] = None
    json_schema: Annotated[
        Any,
        Field(
            "A JSON Schema for the output; not together with `grammar`.", kind=unchecked({"type": "object"})
        ),
    ] = None
    return_tokens: Annotated[bool, Field("Give the ids of the tokens as well.")] = False
