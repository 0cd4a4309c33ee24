"""Wire types of what the Llamatik dialect answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from llmserve.server.web.field_kinds import unchecked
from llmserve.server.web.fields import Field


@dataclass(frozen=True, slots=True, kw_only=True)
class OkAnswer:
    """The request was carried out."""

    ok: Annotated[bool, Field("Always true.", example=True)] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedAnswer:
    """The session was saved."""

    ok: Annotated[bool, Field("Always true.", example=True)] = True
    tokens: Annotated[int, Field("Tokens of the session.", example=120)]
    bytes: Annotated[int, Field("Size of the file.", example=1048576)]


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageAnswer:
    """Token counts."""

    prompt_tokens: Annotated[
        int, Field("Number of tokens in the whole prompt, session included.", wire="promptTokens", example=12)
    ]
    completion_tokens: Annotated[int, Field("Drawn tokens.", wire="completionTokens", example=40)]
    cached_tokens: Annotated[
        int, Field("Prompt tokens that needed no computing.", wire="cachedTokens", example=8)
    ]
    draft_tokens: Annotated[int, Field("Drafted tokens.", wire="draftTokens", example=0)]
    accepted_tokens: Annotated[
        int, Field("Drafted tokens that were accepted.", wire="acceptedTokens", example=0)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingsAnswer:
    """Durations in milliseconds."""

    queue_ms: Annotated[
        float, Field("From submission until the request left the queue.", wire="queueMs", example=0.4)
    ]
    prefill_ms: Annotated[
        float, Field("From leaving the queue to the first token.", wire="prefillMs", example=50.1)
    ]
    decode_ms: Annotated[float, Field("From the first token to the last.", wire="decodeMs", example=812.5)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextAnswer:
    """A generated text."""

    text: Annotated[str, Field("The text.", example="Kotlin Multiplatform shares code between platforms.")]
    finish_reason: Annotated[
        str,
        Field(
            "Why the generation ended.",
            wire="finishReason",
            example="stop",
            kind=unchecked({"type": "string", "enum": ["stop", "length", "cancelled"]}),
        ),
    ]
    usage: Annotated[UsageAnswer, Field("Token counts.")]
    timings: Annotated[TimingsAnswer, Field("Durations.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class FinetuneTypeAnswer:
    """What the model was tuned for."""

    finetune_type: Annotated[
        str | None,
        Field(
            "The file's general.finetune, or null.",
            wire="finetuneType",
            example="instruct",
            kind=unchecked({"type": ["string", "null"]}),
        ),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTemplateAnswer:
    """The model's chat template."""

    chat_template: Annotated[
        str | None,
        Field(
            "The Jinja template, or null.",
            wire="chatTemplate",
            example="{% for message in messages %}...",
            kind=unchecked({"type": ["string", "null"]}),
        ),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedPromptAnswer:
    """A rendered conversation."""

    prompt: Annotated[str, Field("The prompt.", example="<|user|>What is Kotlin?<|assistant|>")]


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamatikError:
    """Why a request was refused or failed."""

    error: Annotated[str, Field("What is wrong.", example="prompt is required")]
