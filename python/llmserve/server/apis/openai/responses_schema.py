"""Wire types of `/v1/responses`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from llmserve.server.apis.openai.chat_schema import CHAT_TEMPLATE, DOCUMENTS, TOOL_CHOICE
from llmserve.server.apis.openai.formats import inner_field
from llmserve.server.apis.openai.reasoning_schema import ReasoningFields
from llmserve.server.apis.openai.schema import MODEL, GenerationFields
from llmserve.server.fields.foreign import Refused
from llmserve.server.fields.refused import MISPLACED, Refusals
from llmserve.server.fields.sampling import MAX_COUNT
from llmserve.server.refusals import FieldError
from llmserve.server.web.field_kinds import (
    OBJECT,
    OBJECTS,
    TEXT_OR_OBJECT,
    TEXT_OR_OBJECTS,
    one_of,
    unchecked,
)
from llmserve.server.web.fields import Field
from llmserve.server.web.schema import kind_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOptions:
    """The format that the text must have."""

    format: Annotated[
        Mapping[str, Any] | None,
        Field(
            "`{type: text}`, `{type: json_object}`, `{type: json_schema, name, schema}`, `{type: regex, "
            "pattern}`, `{type: grammar, grammar}` or `{type: structural_tag, format}`.",
            engine=("json_schema", "regex", "grammar"),
            kind=OBJECT,
            inner=inner_field,
        ),
    ] = None
    foreign: ClassVar = MISPLACED


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningOptions:
    """How the model reasons."""

    effort: Annotated[
        str | None, Field("Passed to the chat template; `none` also turns reasoning off there.")
    ] = None
    foreign: ClassVar = MISPLACED


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsesRequest(GenerationFields, ReasoningFields):
    """The next turn of a conversation. Null counts as absent."""

    model: Annotated[str | None, MODEL] = None
    input: Annotated[
        str | tuple[dict[str, Any], ...],
        Field(
            "The user's message, or the whole conversation as items.",
            engine="prompt",
            kind=TEXT_OR_OBJECTS,
            example="Say hello.",
        ),
    ]
    instructions: Annotated[str | None, Field("The system message.")] = None
    tools: Annotated[
        tuple[dict[str, Any], ...],
        Field("Functions that the model may call.", kind=OBJECTS),
    ] = ()
    tool_choice: Annotated[
        Any,
        Field("`auto`, `none`, `required`, or a function.", kind=TOOL_CHOICE),
    ] = None
    parallel_tool_calls: Annotated[bool, Field("Whether a turn may have several calls.")] = True
    text: Annotated[TextOptions, Field("The format that the text must have.")] = field(
        default_factory=TextOptions
    )
    reasoning: Annotated[ReasoningOptions, Field("How the model reasons.")] = field(
        default_factory=ReasoningOptions
    )
    max_output_tokens: Annotated[
        int | None,
        Field(
            "Maximum number of tokens, reasoning and calls included. Absent or -1: up to the context length.",
            engine="max_tokens",
            example=64,
            minimum=-1,
            maximum=MAX_COUNT,
        ),
    ] = None
    stream: Annotated[bool, Field("Answer with server-sent events.")] = False
    reasoning_format: Annotated[
        Literal["auto", "deepseek", "none"],
        Field(
            "llama-server's: reasoning is an item of its own (`auto`, `deepseek`), or stands between its "
            "tags in the text (`none`).",
            kind=one_of("auto", "deepseek", "none"),
        ),
    ] = "auto"
    documents: Annotated[tuple[dict[str, Any], ...], DOCUMENTS] = ()
    chat_template: Annotated[str | None, CHAT_TEMPLATE] = None
    chat_template_kwargs: Annotated[
        Mapping[str, Any],
        Field("Further variables for the chat template.", kind=OBJECT),
    ] = field(default_factory=dict)
    prompt_cache_key: Annotated[
        str | None, Field("Accepted without effect: equal prefixes are found without it.")
    ] = None
    previous_response_id: Annotated[
        str | None,
        Field(
            "The stored response whose conversation the input continues, without its instructions.",
            non_empty=True,
        ),
    ] = None
    store: Annotated[
        bool,
        Field("Whether the response is stored, so that it can be continued, read and deleted."),
    ] = True
    background: Annotated[
        bool,
        Field("Answer at once, and generate without the client, which asks for the response. Needs `store`."),
    ] = False
    metadata: Annotated[Mapping[str, Any], Field("Returned in the response.", kind=OBJECT)] = field(
        default_factory=dict
    )
    conversation: Annotated[
        str | dict[str, Any] | None,
        Field(
            "The stored conversation that the input continues, by its id or as an object with the `id`. "
            "Input and output become part of it.",
            kind=TEXT_OR_OBJECT,
        ),
    ] = None
    prompt: Annotated[
        Any, Field("Refused: templates are not stored.", kind=unchecked({"type": "object"}))
    ] = None
    foreign: ClassVar = Refusals(
        {
            "messages": Refused("use input"),
            "inputs": Refused("use input"),
            "max_tokens": Refused("use max_output_tokens"),
            "max_completion_tokens": Refused("use max_output_tokens"),
            "reasoning_effort": Refused("use reasoning.effort"),
            "response_format": Refused("use text.format", ({"type": "text"},), may_be_empty=False),
            "add_special_tokens": Refused("the chat template writes them", (False,)),
        }
    )

    @property
    def conversation_id(self) -> str | None:
        """The id of the stored conversation.

        Raises:
            FieldError: There is none in the field, or the request continues a response, too.
        """
        if self.conversation is None:
            return None
        if self.previous_response_id is not None:
            raise FieldError("conversation", "cannot be used with previous_response_id: choose one")
        given = self.conversation
        found = given if isinstance(given, str) else given.get("id")
        if not isinstance(found, str):
            raise FieldError("conversation.id", f"must be a string, got {kind_of(found)}")
        return found
