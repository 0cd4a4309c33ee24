"""What the routes of the llamacpp-server dialect answer, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmserve.server.apis.llamacpp.schema import CompletionResponse, ErrorResponse
from llmserve.server.web.endpoint import Content
from llmserve.server.web.gate import FORBIDDEN

_ERROR: Mapping[str, Mapping[str, Any]] = {
    "application/json": {"schema": {"$ref": f"#/components/schemas/{ErrorResponse.__name__}"}}
}

RESPONSE_TYPES = (CompletionResponse, ErrorResponse)
"""Classes that responses refer to."""


def _events(description: str, examples: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    return {
        "schema": {"type": "string", "description": description},
        "examples": {
            name: {"summary": summary, "value": value} for name, (summary, value) in examples.items()
        },
    }


_UNAVAILABLE = Content("The queue is full, or the server is draining; see `Retry-After`.", _ERROR)
_TOO_LARGE = Content("The body is over the limit.", _ERROR)
_FORBIDDEN = Content(FORBIDDEN, _ERROR)

LOAD_RESPONSES: Mapping[int, Content] = {
    200: Content(
        "SSE stream of loading progress events. A load that fails ends with an `error` event.",
        {
            "text/event-stream": _events(
                "Each `data:` line holds a JSON object with `progress`, rising from above 0 to exactly 1. "
                "The stream ends with `data: [DONE]`. On error an `event: error` is sent, whose data is a "
                "JSON string, and no `[DONE]`.",
                {
                    "progress": (
                        "A load",
                        'data: {"progress":0.25}\n\ndata: {"progress":0.5}\n\ndata: '
                        '{"progress":1}\n\ndata: [DONE]\n\n',
                    ),
                    "error": (
                        "A load that fails",
                        'data: {"progress":0.01}\n\nevent: error\ndata: "the file is no GGUF file"\n\n',
                    ),
                },
            )
        },
    ),
    400: Content(
        "The path is missing, the body is malformed, or the path is outside the allowed folder.", _ERROR
    ),
    403: Content(f"Paths are taken from local requests only. {FORBIDDEN}", _ERROR),
    408: Content("The body did not arrive in time.", _ERROR),
    413: _TOO_LARGE,
    503: Content("The server is draining; see `Retry-After`.", _ERROR),
}

COMPLETION_RESPONSES: Mapping[int, Content] = {
    200: Content(
        "Streaming: SSE stream of completion events. Non-streaming: a single JSON object. `X-LLMServe-Seed` "
        "holds the seed that was used, `X-LLMServe-Ignored` the fields without effect.",
        {
            "text/event-stream": _events(
                "Each `data:` line holds a JSON `CompletionResponse`, one for every token. The stream ends "
                "with `data: [DONE]`. On error an `event: error` is sent, whose data is a JSON string, and "
                "no `[DONE]`.",
                {
                    "streaming": (
                        "Token by token",
                        'data: {"message":"The","token":450,"tokens":1}\n\n'
                        'data: {"message":" capital","token":6421,"tokens":2}\n\ndata: [DONE]\n\n',
                    )
                },
            ),
            "application/json": {
                "schema": {"$ref": f"#/components/schemas/{CompletionResponse.__name__}"},
                "examples": {
                    "non-streaming": {
                        "summary": "The whole text",
                        "value": {"message": "The capital of France is Paris.", "token": 0, "tokens": 0},
                    }
                },
            },
        },
    ),
    400: Content(
        "Malformed body, a model that is not loaded (yet), or a prompt over the context length.", _ERROR
    ),
    403: _FORBIDDEN,
    410: Content(
        "The session that `X-LLMServe-Session` names has expired; the next call begins it anew.", _ERROR
    ),
    408: Content("The body did not arrive in time.", _ERROR),
    413: _TOO_LARGE,
    500: Content("Prediction failed.", _ERROR),
    503: _UNAVAILABLE,
}
