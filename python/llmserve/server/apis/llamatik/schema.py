"""Wire types of what the Llamatik dialect reads. Field names exist here and in `answers` only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from llmserve.server.fields.foreign import Refused
from llmserve.server.fields.loading import LOADING
from llmserve.server.fields.refused import Refusals
from llmserve.server.fields.sampling import SAMPLING
from llmserve.server.fields.table import camel, group
from llmserve.server.web.field_kinds import MESSAGES, TEXT_OR_OBJECT
from llmserve.server.web.fields import Field, Values

_EXTENSIONS = ("seed", "min_p", "stop", "frequency_penalty", "presence_penalty")

_SAMPLING = group(
    SAMPLING,
    {
        "repetition_penalty": {"wire": "repeatPenalty"},
        "max_tokens": {},
        **{name: {"doc": f"Extension: {SAMPLING[name].field.doc}"} for name in _EXTENSIONS},
    },
    without=("logit_bias",),
    wire=camel,
    has_defaults=False,
)
_LOADING = group(
    LOADING,
    {
        "context_length": {"minimum": 0, "doc": "Context length in tokens; 0 for the server's own."},
        "threads": {
            "wire": "numThreads",
            "minimum": -1,
            "doc": "Number of compute threads; 0 and -1 for the server's own.",
        },
        "batch_size": {"minimum": 0, "doc": "Maximum number of tokens in a step; 0 for the server's own."},
        "gpu_layers": {"minimum": -1, "doc": "Number of layers on the GPU; 0 for none, -1 for all."},
    },
    wire=camel,
    has_defaults=False,
)
_JSON = Refused("use a route whose name has Json", may_be_empty=False)
_WITH_PROMPT = Refusals({"json_schema": _JSON})
_WITH_CONTEXT = Refusals({"json_schema": _JSON, "prompt": Refused("use userPrompt")})


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingFields:
    """How tokens are drawn and when the text ends. All fields are optional."""

    sampling: Annotated[Values, _SAMPLING] = field(default_factory=_SAMPLING.defaults)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParamsFields(SamplingFields):
    """Sampling parameters, and load options that rebuild the model. All fields are optional."""

    loading: Annotated[Values, _LOADING] = field(default_factory=_LOADING.defaults)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParamsRequest(ParamsFields):
    """The parameters that change. All fields are optional."""

    foreign: ClassVar = _WITH_PROMPT


@dataclass(frozen=True, slots=True, kw_only=True)
class InitRequest:
    """Which model to load."""

    model_path: Annotated[
        str,
        Field(
            "Path to the GGUF model file. With MODELS_DIR set it must resolve inside that folder, and "
            "relative paths start there.",
            wire="modelPath",
            example="/models/tinyllama.gguf",
            non_empty=True,
        ),
    ]


_SESSION = Field(
    "Extension: the session that the call belongs to, 1 to 128 of A-Z a-z 0-9 . _ -; by default the default "
    "session. The header X-LLMServe-Session means the same.",
    wire="sessionId",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
    """Which session."""

    session_id: Annotated[str | None, _SESSION] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFileRequest(SessionRequest):
    """A session and its file."""

    path: Annotated[
        str,
        Field(
            "Path of the session's file. With SESSIONS_DIR set it must resolve inside that folder, and "
            "relative paths start there.",
            example="/models/sessions/chat1.bin",
            non_empty=True,
        ),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyRequest:
    """An object without fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationFields(SamplingFields):
    """What every generation takes. Sampling fields apply to this request only."""

    session_id: Annotated[str | None, _SESSION] = None
    foreign: ClassVar = _WITH_PROMPT


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRequest(GenerationFields):
    """A prompt. Sampling fields apply to this request only."""

    prompt: Annotated[
        str,
        Field(
            "Input text, unchanged: the text of control tokens is read as control tokens.",
            example="Explain Kotlin Multiplatform in one sentence.",
        ),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinueRequest(GenerationFields):
    """How a session continues. Sampling fields apply to this request only."""

    prompt: Annotated[
        str,
        Field(
            "The next user turn after a call with context, otherwise raw text that is appended.",
            example="Now show a Kotlin code example.",
        ),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRequest(GenerationFields):
    """A system turn and a user turn. Sampling fields apply to this request only."""

    system_prompt: Annotated[
        str,
        Field(
            "The system turn; there is none if empty.",
            wire="systemPrompt",
            example="You are a concise assistant.",
        ),
    ] = ""
    context_block: Annotated[
        str,
        Field(
            "Text before the user's words, separated from them by a blank line; there is none if empty.",
            wire="contextBlock",
            example="The user is building a KMP app.",
        ),
    ] = ""
    user_prompt: Annotated[
        str,
        Field(
            "The user's words. They and contextBlock may not both be empty.",
            wire="userPrompt",
            example="Which Kotlin libraries should I use?",
        ),
    ]
    foreign: ClassVar = _WITH_CONTEXT


_JSON_SCHEMA = Field(
    "A JSON Schema, as a string or as an object. If absent, any JSON value is allowed.",
    wire="jsonSchema",
    example='{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}',
    kind=TEXT_OR_OBJECT,
)
JsonSchemaField = str | dict[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonPromptRequest(PromptRequest):
    """A prompt whose answer is JSON. Sampling fields apply to this request only."""

    json_schema: Annotated[JsonSchemaField, _JSON_SCHEMA] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFields(ParamsFields):
    """Every field that the engine may reject."""

    json_schema: Annotated[JsonSchemaField, _JSON_SCHEMA] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonContextRequest(ContextRequest):
    """A system turn and a user turn whose answer is JSON. Sampling fields apply to this request only."""

    json_schema: Annotated[JsonSchemaField, _JSON_SCHEMA] = None


AnyGenerationRequest = PromptRequest | ContinueRequest | ContextRequest
"""The body of a route that generates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTemplateRequest:
    """Messages to render."""

    messages: Annotated[
        tuple[dict[str, Any], ...],
        Field(
            "The conversation: objects with role and content.",
            example=[
                {"role": "system", "content": "You are a helpful assistant."},
                {"role": "user", "content": "What is Kotlin?"},
            ],
            kind=MESSAGES,
        ),
    ]
    add_assistant_prefix: Annotated[
        bool,
        Field("End with the beginning of the assistant's turn.", wire="addAssistantPrefix", example=True),
    ] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MtpInitRequest:
    """Whose draft head to bind, and how to use it."""

    model_path: Annotated[
        str,
        Field(
            "Path of the loaded model, whose file contains the draft head.",
            wire="modelPath",
            example="/models/qwen3.gguf",
            non_empty=True,
        ),
    ]
    draft_len: Annotated[
        int,
        Field("Maximum number of tokens in one draft.", wire="draftLen", example=3, minimum=1, maximum=8),
    ] = 3
    adaptive: Annotated[bool, Field("Extension: shorten or skip drafts when they do not pay off.")] = True
