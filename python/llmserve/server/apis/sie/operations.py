"""What the routes of the SIE dialect answer, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmserve.server.apis.sie.schema import (
    CachedTokens,
    GenerateError,
    GenerateFault,
    GenerateRequest,
    GenerateResponse,
    GenerateUsage,
)
from llmserve.server.web.endpoint import Content, Endpoint, Serve

RESPONSE_TYPES = (CachedTokens, GenerateError, GenerateFault, GenerateResponse, GenerateUsage)
"""Classes that responses refer to."""

_ERROR: Mapping[str, Mapping[str, Any]] = {
    "application/json": {"schema": {"$ref": f"#/components/schemas/{GenerateError.__name__}"}}
}

_STREAM_EXAMPLE = (
    'data: {"request_id":"b1","seq":0,"text_delta":" It","done":false}\n\n'
    'data: {"request_id":"b1","seq":1,"text_delta":"","done":true,"finish_reason":"stop","usage":'
    '{"prompt_tokens":8,"completion_tokens":2,"total_tokens":10,'
    '"prompt_tokens_details":{"cached_tokens":0}},'
    '"ttft_ms":12.3}\n\ndata: [DONE]\n\n'
)

_EVENTS: Mapping[str, Any] = {
    "schema": {
        "type": "string",
        "description": "`data:` lines of JSON. Each has `request_id`, `seq` (from 0), `text_delta` and "
        "`done`, and `logprobs` where asked for: for each token of the delta `token`, `logprob`, `bytes` "
        "(a list or null) and `top_logprobs`. The last has `done` true, `finish_reason`, `usage` and "
        "`ttft_ms`; after a failure `finish_reason` is `error`, and `error` holds `code` and `message`. "
        "Then `data: [DONE]`.",
    },
    "examples": {"stream": {"summary": "A stream", "value": _STREAM_EXAMPLE}},
}

_RESPONSES: Mapping[int, Content] = {
    200: Content(
        "The text, or the stream of it. `X-LLMServe-Seed` holds the seed that was used.",
        {
            "application/json": {"schema": {"$ref": f"#/components/schemas/{GenerateResponse.__name__}"}},
            "text/event-stream": _EVENTS,
        },
    ),
    400: Content(
        "`invalid_request`, `unsupported_field`, `context_exceeded`, or `MODEL_NOT_FOUND` for an id with a "
        "slash.",
        _ERROR,
    ),
    401: Content("`unauthorized`: the server wants an API key.", _ERROR),
    404: Content("`MODEL_NOT_FOUND`: there is no such model.", _ERROR),
    410: Content("`session_expired`: the next call begins the session anew.", _ERROR),
    408: Content("The body did not arrive in time.", _ERROR),
    413: Content("`INPUT_TOO_LONG`: the prompt or the body is over its limit.", _ERROR),
    500: Content("`inference_error`: the model failed to compute.", _ERROR),
    502: Content("`MODEL_LOAD_FAILED`: the model cannot be loaded.", _ERROR),
    503: Content(
        "`MODEL_LOADING` or `QUEUE_FULL`, with `Retry-After`, or `generation_cancelled`.",
        _ERROR,
    ),
    504: Content("`timeout`: one of the request's own time limits has passed.", _ERROR),
}


def generate_endpoint(serve: Serve) -> Endpoint:
    """`POST /v1/generate/{model}`."""
    return Endpoint(
        path="/v1/generate/{model:path}",
        method="POST",
        serve=serve,
        operation_id="sieGenerate",
        summary="Generate text (SIE)",
        description=(
            "Generates text from a prompt with a model of the catalogue, which is loaded if it is not. The "
            "body is read strictly: unknown fields are refused. Every answer has `X-SIE-Request-ID` and "
            "`X-SIE-Server-Version`, every error `X-SIE-Error-Code`. The headers `X-SIE-Remote: forbid` and "
            "`X-SIE-MACHINE-PROFILE` are accepted and have no effect."
        ),
        parameters={"model": "The id with `__` in place of the slash, such as `Org__Name`."},
        body=GenerateRequest,
        responses=_RESPONSES,
    )
