"""Wire types of `/v1/messages` and `/v1/messages/count_tokens`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from llmserve.server.fields.foreign import Refused
from llmserve.server.fields.refused import MISPLACED, Refusals
from llmserve.server.fields.sampling import MAX_COUNT, RANDOM_SEED, SAMPLING
from llmserve.server.fields.table import group
from llmserve.server.web.field_kinds import MESSAGES, OBJECT, OBJECTS, TEXT_OR_OBJECTS, one_of, unchecked
from llmserve.server.web.fields import Field, Group, Values

MESSAGES_SAMPLING = Group(
    group(
        SAMPLING,
        {
            "temperature": {"maximum": 1e6, "default": 1.0},
            "seed": {"default": RANDOM_SEED},
            "stop": {"wire": "stop_sequences"},
        },
    ).entries,
    is_filled=False,
)

_FORMAT = Field(
    "`{type: json_schema, schema}`. The output always conforms to it.",
    engine="json_schema",
    kind=OBJECT,
    inner=lambda value: ".schema",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingConfig:
    """Whether the model reasons before it answers."""

    type: Annotated[
        Literal["enabled", "adaptive", "between_tools", "disabled"],
        Field(
            "`disabled` turns reasoning off in the chat template and closes what is begun all the same; the "
            "others turn it on.",
            kind=one_of("enabled", "adaptive", "between_tools", "disabled"),
        ),
    ] = "enabled"
    budget_tokens: Annotated[
        int | None,
        Field(
            "After how many tokens the reasoning is closed, so that the answer still comes. Absent: as the "
            "server's setting `LLMSERVE_REASONING_BUDGET` says.",
            minimum=1,
            maximum=MAX_COUNT,
            example=1024,
        ),
    ] = None
    display: Annotated[
        Literal["summarized", "omitted"],
        Field(
            "`omitted`: the blocks of the reasoning are empty.",
            kind=one_of("summarized", "omitted"),
        ),
    ] = "summarized"
    foreign: ClassVar = MISPLACED


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChoice:
    """Whether the model calls tools, and which."""

    type: Annotated[
        Literal["auto", "any", "tool", "none"],
        Field(
            "As the model likes, some tool, the named tool, or none.",
            kind=one_of("auto", "any", "tool", "none"),
        ),
    ] = "auto"
    name: Annotated[str | None, Field("The tool, with the type `tool`.")] = None
    disable_parallel_tool_use: Annotated[bool, Field("Have at most one call in the turn.")] = False
    foreign: ClassVar = MISPLACED


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputConfig:
    """What the output is to be."""

    format: Annotated[Mapping[str, Any] | None, _FORMAT] = None
    effort: Annotated[str | None, Field("Passed to the chat template as `reasoning_effort`.")] = None
    foreign: ClassVar = MISPLACED


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesRequest:
    """The next turn of a conversation, which the server does not store. Null counts as absent."""

    model: Annotated[str, Field("A model's id, as `GET /v1/models` lists them.", non_empty=True)]
    messages: Annotated[
        tuple[dict[str, Any], ...],
        Field(
            "The whole conversation. Content is text, or blocks of the types `text`, `thinking`, `tool_use` "
            "and `tool_result`. If the last message is the assistant's, the answer continues it.",
            engine="prompt",
            kind=MESSAGES,
            example=[{"role": "user", "content": "Say hello."}],
        ),
    ]
    system: Annotated[
        str | tuple[dict[str, Any], ...] | None,
        Field("The system message: text, or text blocks.", kind=TEXT_OR_OBJECTS),
    ] = None
    max_tokens: Annotated[
        int | None,
        Field(
            "Maximum number of tokens, reasoning and calls included. Absent: up to the context length.",
            example=64,
            minimum=1,
            maximum=MAX_COUNT,
        ),
    ] = None
    sampling: Annotated[Values, MESSAGES_SAMPLING] = field(default_factory=dict)
    """The fields that are given. The others have the defaults of the model's settings, or of the API."""
    stream: Annotated[bool, Field("Answer with server-sent events.")] = False
    tools: Annotated[tuple[dict[str, Any], ...], Field("Tools that the model may call.", kind=OBJECTS)] = ()
    tool_choice: Annotated[ToolChoice, Field("Whether the model calls tools, and which.")] = field(
        default_factory=ToolChoice
    )
    thinking: Annotated[
        ThinkingConfig | None,
        Field("Whether the model reasons before it answers. Absent: as `disabled`."),
    ] = None
    output_config: Annotated[OutputConfig, Field("What the output is to be.")] = field(
        default_factory=OutputConfig
    )
    output_format: Annotated[Mapping[str, Any] | None, _FORMAT] = None
    cache_control: Annotated[
        Any,
        Field(
            "Accepted without effect, here and in blocks and tools: equal beginnings of prompts are found "
            "without it.",
            kind=unchecked({"type": "object"}),
        ),
    ] = None
    thread: Annotated[Any, Field("Refused: threads are not stored.", kind=unchecked({"type": "object"}))] = (
        None
    )
    foreign: ClassVar = Refusals(
        {
            "prompt": Refused("use messages"),
            "input": Refused("use messages"),
            "inputs": Refused("use messages"),
            "stop": Refused("use stop_sequences"),
            "max_tokens_to_sample": Refused("use max_tokens"),
            "max_completion_tokens": Refused("use max_tokens"),
            "max_output_tokens": Refused("use max_tokens"),
            "response_format": Refused("use output_config.format", ({"type": "text"},), may_be_empty=False),
            "format": Refused("use output_config.format"),
            "reasoning_effort": Refused("use output_config.effort"),
            "reasoning": Refused("use thinking"),
            "enable_thinking": Refused("use thinking"),
            "add_special_tokens": Refused("the chat template writes them", (False,)),
            "compaction": Refused("conversations are not compacted"),
            "container": Refused("llmserve runs no code"),
            "mcp_servers": Refused("llmserve calls no other servers"),
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCount:
    """The length of a prompt."""

    input_tokens: Annotated[int, Field("Tokens of the rendered prompt.", example=14)]
