"""What the routes of the Llamatik dialect take and answer, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llmserve.server.apis.llamatik.answers import (
    ChatTemplateAnswer,
    FinetuneTypeAnswer,
    LlamatikError,
    OkAnswer,
    RenderedPromptAnswer,
    TextAnswer,
    TimingsAnswer,
    UsageAnswer,
)
from llmserve.server.apis.llamatik.schema import (
    AnyGenerationRequest,
    ChatTemplateRequest,
    ContextRequest,
    ContinueRequest,
    EmptyRequest,
    InitRequest,
    JsonContextRequest,
    JsonPromptRequest,
    MtpInitRequest,
    ParamsFields,
    PromptRequest,
    SessionFileRequest,
    SessionRequest,
)
from llmserve.server.web.endpoint import Content, Endpoint, Serve
from llmserve.server.web.gate import FORBIDDEN

PREFIX = "/v1/generation"

RESPONSE_TYPES = (
    ChatTemplateAnswer,
    FinetuneTypeAnswer,
    LlamatikError,
    OkAnswer,
    ParamsFields,
    RenderedPromptAnswer,
    TextAnswer,
    TimingsAnswer,
    UsageAnswer,
)
"""Classes that responses refer to."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A route: its name below the prefix and what the document says of it."""

    name: str
    operation_id: str
    summary: str
    description: str
    responses: Mapping[int, Content]
    body: type | None = None
    method: str = "POST"
    needs_body: bool = True


@dataclass(frozen=True, slots=True)
class GenerationRoute:
    """One of the routes that generate: what it reads, and how it answers."""

    name: str
    body: type[AnyGenerationRequest]
    is_stream: bool
    summary: str
    needs_body: bool = True

    @property
    def description(self) -> str:
        """How it begins, and how it answers."""
        start = (
            "Extends the session: the next user turn after a call with context, else raw text."
            if self.body is ContinueRequest
            else "Starts from an empty context; prompt and output are the session afterwards."
        )
        answer = "an SSE stream" if self.is_stream else "the whole text"
        return f"{start} Answers with {answer}. A client that disconnects cancels its request."


def _json(cls: type) -> Mapping[str, Mapping[str, Any]]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{cls.__name__}"}}}


_ERROR = _json(LlamatikError)
_BAD = Content("Malformed body, or a field that is missing, of a wrong type or out of range.", _ERROR)
_NO_MODEL = Content("`init` has not succeeded yet.", _ERROR)

_COMMON: Mapping[int, Content] = {
    400: _BAD,
    403: Content(FORBIDDEN, _ERROR),
    408: Content("The body did not arrive in time.", _ERROR),
    413: Content("The body is over the limit.", _ERROR),
    503: Content("The server is draining; see `Retry-After`.", _ERROR),
}


def _answers(cls: type, description: str, more: Mapping[int, Content] | None = None) -> Mapping[int, Content]:
    return {200: Content(description, _json(cls)), **_COMMON, **(more or {})}


_OK = "Done."

_GENERATION_ERRORS: Mapping[int, Content] = {
    **_COMMON,
    400: Content(
        "Malformed body, a wrong field, a schema that cannot be honoured, or too few tokens for it.", _ERROR
    ),
    409: Content("`init` has not succeeded yet, or the call was cancelled without a whole document.", _ERROR),
    410: Content("The session has expired; the next call begins a new one.", _ERROR),
    500: Content("Generation failed.", _ERROR),
    503: Content("The queue is full, or the server is draining; see `Retry-After`.", _ERROR),
}

_EVENTS: Mapping[str, Any] = {
    "schema": {
        "type": "string",
        "description": (
            "Each `data:` line holds a JSON object: `event` is `delta` (with `text`), `done` (with "
            "`finishReason`, `usage` and `timings`) or `error` (with `message`). A stream ends with exactly "
            "one `done` or `error`."
        ),
    },
    "examples": {
        "stream": {
            "summary": "A stream",
            "value": (
                'data: {"event":"delta","text":"Hel"}\n\ndata: {"event":"delta","text":"lo"}\n\n'
                'data: {"event":"done","finishReason":"stop"}\n\n'
            ),
        }
    },
}


def generation_responses(route: GenerationRoute) -> Mapping[int, Content]:
    """What a generation route answers."""
    description = (
        "`X-LLMServe-Seed` holds the seed that was used, `X-LLMServe-Ignored` the fields without effect."
    )
    media = {"text/event-stream": _EVENTS} if route.is_stream else _json(TextAnswer)
    return {200: Content(description, media), **_GENERATION_ERRORS}


GENERATION_ROUTES = (
    GenerationRoute("generate", PromptRequest, False, "Generate text"),
    GenerationRoute("generateWithContext", ContextRequest, False, "Generate with system prompt and context"),
    GenerationRoute("generateJson", JsonPromptRequest, False, "Generate JSON of a schema"),
    GenerationRoute(
        "generateJsonWithContext", JsonContextRequest, False, "Generate JSON with system prompt and context"
    ),
    GenerationRoute("continue", ContinueRequest, False, "Go on in a session"),
    GenerationRoute("stream", PromptRequest, True, "Stream text"),
    GenerationRoute("streamWithContext", ContextRequest, True, "Stream with system prompt and context"),
    GenerationRoute("jsonStream", JsonPromptRequest, True, "Stream JSON of a schema"),
    GenerationRoute(
        "jsonStreamWithContext",
        JsonContextRequest,
        True,
        "Stream JSON with system prompt and context",
        needs_body=False,
    ),
    GenerationRoute("continueStream", ContinueRequest, True, "Stream the continuation of a session"),
)


def endpoint(operation: Operation, serve: Serve) -> Endpoint:
    """The endpoint of a route that does not generate."""
    return Endpoint(
        path=f"{PREFIX}/{operation.name}",
        method=operation.method,
        serve=serve,
        operation_id=operation.operation_id,
        summary=operation.summary,
        description=operation.description,
        responses=operation.responses,
        body=operation.body,
        needs_body=operation.needs_body,
    )


def generation_endpoint(route: GenerationRoute, serve: Serve) -> Endpoint:
    """The endpoint of a route that generates."""
    return Endpoint(
        path=f"{PREFIX}/{route.name}",
        method="POST",
        serve=serve,
        operation_id=route.name,
        summary=route.summary,
        description=route.description,
        responses=generation_responses(route),
        body=route.body,
        needs_body=route.needs_body,
    )


INIT = Operation(
    "init",
    "initGeneration",
    "Load the generation model",
    "Loads a GGUF model and makes it the one of all routes here. The same path again answers at once; "
    "another one replaces it, and the former is released when its running requests end. Calls for a path "
    "that is being loaded wait for it; the last one to leave cancels the load.",
    _answers(
        OkAnswer,
        _OK,
        {
            400: Content("Malformed body, a path outside the folder, or the model fails to load.", _ERROR),
            403: Content(f"Paths are taken from local requests only. {FORBIDDEN}", _ERROR),
            409: Content("Another model is being loaded.", _ERROR),
        },
    ),
    InitRequest,
)
PARAMS = Operation(
    "params",
    "setGenerationParams",
    "Set parameters",
    "Merges the given fields into the parameters of all sessions. Sampling fields hold from the next request "
    "on; load options reload the model for this dialect, without failing running requests. Nothing changes "
    "where a field is wrong or the model cannot be loaded so.",
    _answers(OkAnswer, _OK, {409: Content("`shutdown` came in between.", _ERROR)}),
    ParamsFields,
)
READ_PARAMS = Operation(
    "params",
    "generationParams",
    "Read parameters",
    "The values in force. Those that the engine chooses are null before a model is loaded; `flashAttention` "
    "is null where llama.cpp decides.",
    {200: Content("The values.", _json(ParamsFields)), 503: _COMMON[503]},
    method="GET",
)
CANCEL = Operation(
    "cancel",
    "cancelGeneration",
    "Cancel a session's calls",
    "Ends what runs or waits in the default session, or in the one that is named, within one step.",
    _answers(OkAnswer, _OK),
    SessionRequest,
    needs_body=False,
)
SHUTDOWN = Operation(
    "shutdown",
    "shutdownGeneration",
    "Unload the model",
    "Ends this dialect's use of the model. Running requests finish; memory goes when nobody uses it.",
    _answers(OkAnswer, _OK),
    EmptyRequest,
    needs_body=False,
)
SESSION_RESET = Operation(
    "session/reset",
    "resetSession",
    "Empty a session",
    "Empties the default session, or the one that is named, after its running call.",
    _answers(OkAnswer, _OK, {409: _NO_MODEL}),
    SessionRequest,
    needs_body=False,
)
_FILE_ERRORS = {
    400: Content("Malformed body, a path outside the folder, or what is wrong with the file.", _ERROR),
    403: Content(f"Paths are taken from local requests only. {FORBIDDEN}", _ERROR),
    409: _NO_MODEL,
}
SESSION_SAVE = Operation(
    "session/save",
    "saveSession",
    "Save a session",
    "Writes the session's tokens and their state to a file, which appears as a whole or not at all. Only a "
    "session's file is replaced.",
    _answers(OkAnswer, _OK, {**_FILE_ERRORS, 410: _GENERATION_ERRORS[410]}),
    SessionFileRequest,
)
SESSION_LOAD = Operation(
    "session/load",
    "loadSession",
    "Load a session",
    "Replaces the session by a saved one of the same model. It stays as it was where that fails.",
    _answers(OkAnswer, _OK, _FILE_ERRORS),
    SessionFileRequest,
)
FINETUNE_TYPE = Operation(
    "model/finetuneType",
    "finetuneType",
    "What the model was tuned for",
    "The metadata field `general.finetune` of the loaded file.",
    {200: Content("The value, or null.", _json(FinetuneTypeAnswer)), 409: _NO_MODEL, 503: _COMMON[503]},
    method="GET",
)
CHAT_TEMPLATE = Operation(
    "model/chatTemplate",
    "chatTemplate",
    "The model's chat template",
    "The Jinja template of the loaded file.",
    {200: Content("The template, or null.", _json(ChatTemplateAnswer)), 409: _NO_MODEL, 503: _COMMON[503]},
    method="GET",
)
APPLY_CHAT_TEMPLATE = Operation(
    "model/applyChatTemplate",
    "applyChatTemplate",
    "Render messages",
    "The prompt that the model's chat template makes of messages; without one, a plain layout.",
    _answers(RenderedPromptAnswer, "The prompt.", {409: _NO_MODEL}),
    ChatTemplateRequest,
)
_MTP_LOADING = Content("A model is being loaded.", _ERROR)
MTP_INIT = Operation(
    "mtp/init",
    "initMtp",
    "Draft with the model's own head",
    "Binds the multi-token prediction (MTP) head of the loaded model: this dialect's requests draft with it "
    "from then on, which changes no text. Again: with other options. `init` of another model releases it.",
    _answers(
        OkAnswer,
        _OK,
        {
            400: Content("Malformed body, a wrong field, or the model has no head.", _ERROR),
            409: Content("No model is loaded, another path than its, or a load is running.", _ERROR),
            500: Content("The draft context could not be made.", _ERROR),
        },
    ),
    MtpInitRequest,
)
MTP_SHUTDOWN = Operation(
    "mtp/shutdown",
    "shutdownMtp",
    "Draft no more",
    "Releases what `mtp/init` has bound, also where that is nothing; the model stays.",
    _answers(OkAnswer, _OK, {409: _MTP_LOADING}),
    EmptyRequest,
    needs_body=False,
)
