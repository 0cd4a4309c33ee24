"""The ten routes that generate, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llmserve.server.apis.llamatik.answers import TextAnswer
from llmserve.server.apis.llamatik.contents import NO_MODEL, SESSION_EXPIRED
from llmserve.server.apis.llamatik.errors import LLAMATIK, PREFIX
from llmserve.server.apis.llamatik.schema import (
    AnyGenerationRequest,
    ContextRequest,
    ContinueRequest,
    JsonContextRequest,
    JsonPromptRequest,
    PromptRequest,
)
from llmserve.server.web.endpoint import Content, Endpoint, json_of
from llmserve.server.web.session_names import SESSION

_ERRORS: Mapping[int, str] = {
    400: "A schema that cannot be honoured, too few tokens for it, or a prompt over the context length.",
    409: f"{NO_MODEL} Or the call was cancelled without a whole document.",
    410: SESSION_EXPIRED,
    500: "Generation failed.",
    503: "The queue is full; see `Retry-After`.",
}

_EVENTS: Mapping[str, Any] = {
    "schema": {
        "type": "string",
        "description": (
            "Each `data:` line is a JSON object: `event` is `delta` (with `text`), `done` (with "
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
            else "Starts from an empty context; afterwards the session is prompt and output."
        )
        answer = "an SSE stream" if self.is_stream else "the whole text"
        return f"{start} Answers with {answer}. A client that disconnects cancels its request."

    @property
    def endpoint(self) -> Endpoint:
        """The route as an endpoint."""
        description = (
            "`X-LLMServe-Seed` is the seed that was used, `X-LLMServe-Ignored` the fields without effect."
        )
        media = {"text/event-stream": _EVENTS} if self.is_stream else json_of(TextAnswer)
        return Endpoint(
            path=f"{PREFIX}/{self.name}",
            method="POST",
            dialect=LLAMATIK,
            operation_id=self.name,
            summary=self.summary,
            description=self.description,
            responses={200: Content(description, media)},
            errors=_ERRORS,
            parameters=[SESSION],
            body=self.body,
            needs_body=self.needs_body,
        )


GENERATION_ROUTES = (
    GenerationRoute("generate", PromptRequest, False, "Generate text"),
    GenerationRoute("generateWithContext", ContextRequest, False, "Generate with system prompt and context"),
    GenerationRoute("generateJson", JsonPromptRequest, False, "Generate JSON by a schema"),
    GenerationRoute(
        "generateJsonWithContext", JsonContextRequest, False, "Generate JSON with system prompt and context"
    ),
    GenerationRoute("continue", ContinueRequest, False, "Continue a session"),
    GenerationRoute("stream", PromptRequest, True, "Stream text"),
    GenerationRoute("streamWithContext", ContextRequest, True, "Stream with system prompt and context"),
    GenerationRoute("jsonStream", JsonPromptRequest, True, "Stream JSON by a schema"),
    GenerationRoute(
        "jsonStreamWithContext",
        JsonContextRequest,
        True,
        "Stream JSON with system prompt and context",
        needs_body=False,
    ),
    GenerationRoute("continueStream", ContinueRequest, True, "Stream the continuation of a session"),
)
