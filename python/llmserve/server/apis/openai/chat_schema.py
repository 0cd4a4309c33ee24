"""Wire types of `/v1/chat/completions`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from llmserve.server.apis.openai.reasoning_schema import ReasoningFields
from llmserve.server.apis.openai.schema import PROMPT_LOGPROBS, SamplingFields
from llmserve.server.fields.foreign import Refused
from llmserve.server.fields.refused import Refusals
from llmserve.server.fields.sampling import MAX_COUNT
from llmserve.server.web.field_kinds import MESSAGES, OBJECT, OBJECTS, one_of, unchecked
from llmserve.server.web.fields import Field

ReasoningFormat: TypeAlias = Literal["auto", "deepseek", "deepseek-legacy", "none"]

TOOL_CHOICE = unchecked({"anyOf": [{"type": "string"}, {"type": "object"}]})

CHAT_TEMPLATE = Field(
    "A chat template (Jinja), or the name of one of the model's. Refused unless the server's setting "
    "`LLMSERVE_REQUEST_CHAT_TEMPLATE` is on."
)

DOCUMENTS = Field("Documents for the chat template; refused if it does not read them.", kind=OBJECTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest(SamplingFields, ReasoningFields):
    """The next turn of a conversation. Null counts as absent."""

    messages: Annotated[
        tuple[dict[str, Any], ...],
        Field(
            "The whole conversation. Content is text, or text parts.",
            engine="prompt",
            kind=MESSAGES,
            example=[{"role": "user", "content": "Say hello."}],
        ),
    ]
    max_completion_tokens: Annotated[
        int | None,
        Field(
            "The newer name of `max_tokens`, and the one that counts if both are given.",
            engine="max_tokens",
            minimum=-1,
            maximum=MAX_COUNT,
        ),
    ] = None
    max_tokens: Annotated[
        int | None,
        Field(
            "Maximum number of tokens, reasoning and calls included. Absent or -1: up to the context length.",
            example=64,
            minimum=-1,
            maximum=MAX_COUNT,
        ),
    ] = None
    tools: Annotated[
        tuple[dict[str, Any], ...],
        Field("Functions that the model may call.", kind=OBJECTS),
    ] = ()
    tool_choice: Annotated[
        Any,
        Field(
            "`auto`, `none`, `required`, or the name of a function.",
            kind=TOOL_CHOICE,
        ),
    ] = None
    parallel_tool_calls: Annotated[bool, Field("Whether a turn may have several calls.")] = True
    logprobs: Annotated[bool, Field("Give log-probabilities of the answer's tokens.")] = False
    top_logprobs: Annotated[
        int | None, Field("Number of alternatives for each token.", minimum=0, maximum=20)
    ] = None
    prompt_logprobs: Annotated[int | None, PROMPT_LOGPROBS] = None
    reasoning_effort: Annotated[
        str | None, Field("Passed to the chat template; `none` also turns reasoning off there.")
    ] = None
    reasoning_format: Annotated[
        ReasoningFormat,
        Field(
            "llama-server's: reasoning stands in `reasoning_content` (`auto`, `deepseek`), between its tags "
            "in the content (`none`), or in both (`deepseek-legacy`).",
            kind=one_of("auto", "deepseek", "deepseek-legacy", "none"),
        ),
    ] = "auto"
    chat_template_kwargs: Annotated[
        Mapping[str, Any],
        Field("Further variables for the chat template.", kind=OBJECT),
    ] = field(default_factory=dict)
    chat_template: Annotated[str | None, CHAT_TEMPLATE] = None
    documents: Annotated[tuple[dict[str, Any], ...], DOCUMENTS] = ()
    add_generation_prompt: Annotated[
        bool | None, Field("Begin the assistant's turn. Default: true, unless it continues a message.")
    ] = None
    continue_final_message: Annotated[
        bool,
        Field("Continue the last message. Not with `add_generation_prompt`."),
    ] = False
    modalities: Annotated[Any, Field("Only `text`.", kind=unchecked({"type": "array"}))] = None
    foreign: ClassVar = Refusals(
        {
            "prompt": Refused("use messages"),
            "input": Refused("use messages"),
            "inputs": Refused("use messages"),
            "add_special_tokens": Refused("the chat template writes them", (False,)),
        }
    )
