"""Wire types of `/v1/responses`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from llmserve.server.apis.openai.chat_schema import TOOL_CHOICE_SCHEMA
from llmserve.server.apis.openai.readers import (
    OBJECT_SCHEMA,
    OBJECTS_SCHEMA,
    TEXT_OR_OBJECTS_SCHEMA,
    read_any,
    read_object,
    read_objects,
    read_text_or_objects,
)
from llmserve.server.apis.openai.schema import MAX_SEED, RANDOM_SEED
from llmserve.server.web.schema import Field


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOptions:
    """What the text is held to."""

    format: Annotated[
        Mapping[str, Any] | None,
        Field(
            "`{type: text}`, `{type: json_object}` or `{type: json_schema, name, schema}`.",
            read=read_object,
            schema=OBJECT_SCHEMA,
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningOptions:
    """How the model thinks."""

    effort: Annotated[
        str | None, Field("Given to the chat template; `none` also turns reasoning off there.")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsesRequest:
    """The next turn of a conversation, which nobody keeps here. Null counts as absent."""

    model: Annotated[str, Field("A model's id, as `GET /v1/models` lists them.", non_empty=True)]
    input: Annotated[
        str | tuple[dict[str, Any], ...],
        Field(
            "A text of the user, or the whole conversation as items.",
            read=read_text_or_objects,
            schema=TEXT_OR_OBJECTS_SCHEMA,
        ),
    ]
    instructions: Annotated[str | None, Field("The system message.")] = None
    tools: Annotated[
        tuple[dict[str, Any], ...],
        Field("Functions that the model may call.", read=read_objects, schema=OBJECTS_SCHEMA),
    ] = ()
    tool_choice: Annotated[
        Any,
        Field("`auto`, `none`, `required`, or a function.", read=read_any, schema=TOOL_CHOICE_SCHEMA),
    ] = None
    parallel_tool_calls: Annotated[bool, Field("Whether there may be several calls in a turn.")] = True
    text: Annotated[TextOptions, Field("What the text is held to.")] = field(default_factory=TextOptions)
    reasoning: Annotated[ReasoningOptions, Field("How the model thinks.")] = field(
        default_factory=ReasoningOptions
    )
    max_output_tokens: Annotated[
        int | None,
        Field(
            "The most tokens, reasoning and calls included. Absent or -1: up to the context length.",
            minimum=-1,
            maximum=2**31 - 1,
        ),
    ] = None
    temperature: Annotated[float, Field("0 is greedy.", minimum=0, maximum=1e6)] = 1.0
    top_p: Annotated[float, Field("Nucleus sampling; 1 is off.", minimum=0, maximum=1)] = 1.0
    seed: Annotated[
        int,
        Field(
            "Keys the draws. -1 = random; the one used is in X-LLMServe-Seed.",
            minimum=RANDOM_SEED,
            maximum=MAX_SEED,
        ),
    ] = RANDOM_SEED
    stream: Annotated[bool, Field("Answer with server-sent events.")] = False
    chat_template_kwargs: Annotated[
        Mapping[str, Any],
        Field("Further variables for the chat template.", read=read_object, schema=OBJECT_SCHEMA),
    ] = field(default_factory=dict)
    prompt_cache_key: Annotated[str | None, Field("Accepted: equal prefixes are found without it.")] = None
    previous_response_id: Annotated[
        Any, Field("Refused: responses are not kept.", read=read_any, schema={"type": "string"})
    ] = None
    conversation: Annotated[
        Any, Field("Refused: conversations are not kept.", read=read_any, schema={"type": "string"})
    ] = None
    background: Annotated[bool, Field("Refused where it is true.")] = False
    prompt: Annotated[
        Any, Field("Refused: templates are not kept.", read=read_any, schema={"type": "object"})
    ] = None
