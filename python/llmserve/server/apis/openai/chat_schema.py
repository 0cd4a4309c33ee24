"""Wire types of `/v1/chat/completions`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from llmserve.server.apis.openai.readers import (
    OBJECT_SCHEMA,
    OBJECTS_SCHEMA,
    read_any,
    read_object,
    read_objects,
)
from llmserve.server.apis.openai.schema import SamplingFields
from llmserve.server.web.readers import MESSAGES_SCHEMA, read_messages
from llmserve.server.web.schema import Field

TOOL_CHOICE_SCHEMA: Mapping[str, Any] = {"anyOf": [{"type": "string"}, {"type": "object"}]}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest(SamplingFields):
    """The next turn of a conversation. Null counts as absent."""

    messages: Annotated[
        tuple[dict[str, Any], ...],
        Field(
            "The whole conversation. Content is text, or text parts.",
            read=read_messages,
            schema=MESSAGES_SCHEMA,
        ),
    ]
    max_tokens: Annotated[
        int | None,
        Field(
            "The most tokens, reasoning and calls included. Absent or -1: up to the context length.",
            minimum=-1,
            maximum=2**31 - 1,
        ),
    ] = None
    max_completion_tokens: Annotated[
        int | None, Field("The same under its newer name, which wins.", minimum=-1, maximum=2**31 - 1)
    ] = None
    tools: Annotated[
        tuple[dict[str, Any], ...],
        Field("Functions that the model may call.", read=read_objects, schema=OBJECTS_SCHEMA),
    ] = ()
    tool_choice: Annotated[
        Any,
        Field(
            "`auto`, `none`, `required`, or the name of a function.",
            read=read_any,
            schema=TOOL_CHOICE_SCHEMA,
        ),
    ] = None
    parallel_tool_calls: Annotated[bool, Field("Whether there may be several calls in a turn.")] = True
    functions: Annotated[
        Any, Field("Refused: the old form of `tools`.", read=read_any, schema=OBJECTS_SCHEMA)
    ] = None
    logprobs: Annotated[bool, Field("Give log-probabilities of the answer's tokens.")] = False
    top_logprobs: Annotated[int | None, Field("With so many alternatives each.", minimum=0, maximum=20)] = (
        None
    )
    reasoning_effort: Annotated[
        str | None, Field("Given to the chat template; `none` also turns reasoning off there.")
    ] = None
    chat_template_kwargs: Annotated[
        Mapping[str, Any],
        Field("Further variables for the chat template.", read=read_object, schema=OBJECT_SCHEMA),
    ] = field(default_factory=dict)
    add_generation_prompt: Annotated[bool, Field("Begin the assistant's turn.")] = True
    continue_final_message: Annotated[bool, Field("Go on with the last message, instead of a new one.")] = (
        False
    )
    modalities: Annotated[Any, Field("Only `text`.", read=read_any, schema={"type": "array"})] = None
