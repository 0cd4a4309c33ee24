"""Wire types of what the Llamatik dialect reads. Field names exist here and in `answers` only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from llmserve.server.web.readers import (
    MESSAGES_SCHEMA,
    TEXT_OR_OBJECT_SCHEMA,
    TEXTS_SCHEMA,
    read_messages,
    read_text_or_object,
    read_texts,
)
from llmserve.server.web.schema import Field

MAX_SEED = 2**64 - 1
_MAX_COUNT = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingFields:
    """How tokens are drawn and when the text ends. All fields are optional."""

    temperature: Annotated[
        float | None, Field("Sampling temperature. 0 = greedy.", example=0.7, format="float", minimum=0)
    ] = None
    max_tokens: Annotated[
        int | None,
        Field(
            "The most tokens to generate; the context length ends generation too.",
            wire="maxTokens",
            example=512,
            minimum=1,
            maximum=_MAX_COUNT,
        ),
    ] = None
    top_p: Annotated[
        float | None,
        Field(
            "Keep the smallest set of tokens with at least this probability. 1 = disabled, 0 = only the "
            "likeliest.",
            wire="topP",
            example=0.95,
            format="float",
            minimum=0,
            maximum=1,
        ),
    ] = None
    top_k: Annotated[
        int | None,
        Field(
            "Keep so many of the likeliest tokens. 0 = disabled.",
            wire="topK",
            example=40,
            minimum=0,
            maximum=_MAX_COUNT,
        ),
    ] = None
    repeat_penalty: Annotated[
        float | None,
        Field(
            "Penalty for tokens of prompt and output, above 0. 1 = disabled.",
            wire="repeatPenalty",
            example=1.1,
            format="float",
            minimum=0,
        ),
    ] = None
    seed: Annotated[
        int | None,
        Field(
            "Extension: seed for reproducible sampling. -1 = random. The one used is in X-LLMServe-Seed.",
            minimum=-1,
            maximum=MAX_SEED,
        ),
    ] = None
    min_p: Annotated[
        float | None,
        Field(
            "Extension: keep tokens with at least this share of the likeliest one's probability. "
            "0 = disabled.",
            wire="minP",
            format="float",
            minimum=0,
            maximum=1,
        ),
    ] = None
    stop: Annotated[
        tuple[str, ...] | None,
        Field(
            "Extension: texts that end the generation and are no part of it; [] = none.",
            read=read_texts,
            schema=TEXTS_SCHEMA,
        ),
    ] = None
    frequency_penalty: Annotated[
        float | None,
        Field(
            "Extension: subtracted from a token's logit for each time that it was generated.",
            wire="frequencyPenalty",
            format="float",
            minimum=-100,
            maximum=100,
        ),
    ] = None
    presence_penalty: Annotated[
        float | None,
        Field(
            "Extension: subtracted once from the logit of each token that was generated.",
            wire="presencePenalty",
            format="float",
            minimum=-100,
            maximum=100,
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParamsFields(SamplingFields):
    """Sampling parameters, and load options that rebuild the model. All fields are optional."""

    context_length: Annotated[
        int | None,
        Field(
            "The most tokens of prompt and output together.",
            wire="contextLength",
            example=4096,
            minimum=1,
            maximum=2**27,
        ),
    ] = None
    num_threads: Annotated[
        int | None,
        Field("Compute threads.", wire="numThreads", example=4, minimum=1, maximum=512),
    ] = None
    use_mmap: Annotated[
        bool | None, Field("Map the file instead of reading it.", wire="useMmap", example=True)
    ] = None
    flash_attention: Annotated[
        bool | None,
        Field("Attention as one fused kernel.", wire="flashAttention", example=False),
    ] = None
    batch_size: Annotated[
        int | None,
        Field("The most rows of one step.", wire="batchSize", example=512, minimum=1, maximum=65536),
    ] = None
    gpu_layers: Annotated[
        int | None,
        Field(
            "Layers on the GPU. 0 = CPU only, -1 = all.",
            wire="gpuLayers",
            example=0,
            minimum=-1,
            maximum=_MAX_COUNT,
        ),
    ] = None


LOAD_FIELDS = ("context_length", "num_threads", "use_mmap", "flash_attention", "batch_size", "gpu_layers")
"""The attributes of :class:`ParamsFields` that are load options."""


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
    "Extension: the session that the call belongs to, 1 to 128 of A-Z a-z 0-9 . _ -. Absent: the default "
    "session. The header X-LLMServe-Session means the same.",
    wire="sessionId",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
    """Which session."""

    session_id: Annotated[str | None, _SESSION] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFileRequest(SessionRequest):
    """Which file, and which session."""

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
    """What every generation takes. Sampling fields hold for this request only."""

    session_id: Annotated[str | None, _SESSION] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRequest(GenerationFields):
    """A prompt. Sampling fields hold for this request only."""

    prompt: Annotated[
        str,
        Field(
            "Input text, as it is: the text of control tokens is read as control tokens.",
            example="Explain Kotlin Multiplatform in one sentence.",
        ),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinueRequest(GenerationFields):
    """How a session goes on. Sampling fields hold for this request only."""

    prompt: Annotated[
        str,
        Field(
            "The next user turn after a call with context, else raw text that is appended.",
            example="Now show a Kotlin code example.",
        ),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRequest(GenerationFields):
    """A system turn and a user turn. Sampling fields hold for this request only."""

    system_prompt: Annotated[
        str,
        Field("The system turn; empty: none.", wire="systemPrompt", example="You are a concise assistant."),
    ] = ""
    context_block: Annotated[
        str,
        Field(
            "Text before the user's words, parted from them by a blank line; empty: none.",
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


_JSON_SCHEMA = Field(
    "A JSON Schema, as a string that holds it or as an object. Absent: any JSON value.",
    wire="jsonSchema",
    example='{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}',
    read=read_text_or_object,
    schema=TEXT_OR_OBJECT_SCHEMA,
)
JsonSchemaField = str | dict[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonPromptRequest(PromptRequest):
    """A prompt whose answer is JSON. Sampling fields hold for this request only."""

    json_schema: Annotated[JsonSchemaField, _JSON_SCHEMA] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonContextRequest(ContextRequest):
    """A system turn and a user turn whose answer is JSON. Sampling fields hold for this request only."""

    json_schema: Annotated[JsonSchemaField, _JSON_SCHEMA] = None


AnyGenerationRequest = PromptRequest | ContinueRequest | ContextRequest
"""What a route that generates reads."""


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
            read=read_messages,
            schema=MESSAGES_SCHEMA,
        ),
    ]
    add_assistant_prefix: Annotated[
        bool,
        Field("End with the beginning of an answer.", wire="addAssistantPrefix", example=True),
    ] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MtpInitRequest:
    """Whose draft head to bind, and how to use it."""

    model_path: Annotated[
        str,
        Field(
            "Path of the loaded model, whose file holds the draft head.",
            wire="modelPath",
            example="/models/qwen3.gguf",
            non_empty=True,
        ),
    ]
    draft_len: Annotated[
        int,
        Field("The most tokens of one draft.", wire="draftLen", example=3, minimum=1, maximum=8),
    ] = 3
    adaptive: Annotated[bool, Field("Extension: draft less, or not at all, where it does not pay.")] = True
