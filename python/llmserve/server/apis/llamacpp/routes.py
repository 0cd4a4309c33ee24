"""Routes of the llamacpp-server dialect."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any

from llmserve.server.apis.completions.calls import CompletionCall, CompletionCalls
from llmserve.server.apis.completions.schema import CompletionRequest
from llmserve.server.apis.llamacpp import convert
from llmserve.server.apis.llamacpp.schema import (
    CompletionResponse,
    ErrorResponse,
    LoadByIdRequest,
    LoadModelRequest,
    read_load,
)
from llmserve.server.apis.progress import whole_percents
from llmserve.server.generation import Run
from llmserve.server.models import IDLE_PIN, LoadTicket
from llmserve.server.refusals import CallCancelledError
from llmserve.server.services import Services
from llmserve.server.web.endpoint import Content, Endpoint, Route, routes_of
from llmserve.server.web.errors import Dialect, fault_of
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.headers import answer_headers
from llmserve.server.web.session_names import SESSION
from llmserve.server.web.sse import DONE
from llmserve.stream import Stream

DIALECT = "llamacpp"

LLAMACPP = Dialect(DIALECT, convert.render_completion_fault, ErrorResponse)
_LOADING = Dialect(DIALECT, convert.render_load_fault, ErrorResponse)


def _events(description: str, examples: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    return {
        "schema": {"type": "string", "description": description},
        "examples": {
            name: {"summary": summary, "value": value} for name, (summary, value) in examples.items()
        },
    }


_LOAD_ERRORS: Mapping[int, str] = {
    400: "The path is outside the allowed folder.",
    403: "Paths are taken from local requests only.",
}

_LOAD_RESPONSES: Mapping[int, Content] = {
    200: Content(
        "SSE stream of loading progress events. A load that fails ends with an `error` event.",
        {
            "text/event-stream": _events(
                "Each `data:` line is a JSON object with `progress`, rising from above 0 to exactly 1. "
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
                        'data: {"progress":0.01}\n\nevent: error\ndata: "this is not a GGUF file"\n\n',
                    ),
                },
            ),
            "application/json": {
                "schema": {"type": "object"},
                "examples": {"model": {"summary": "A load by id has begun", "value": {"success": True}}},
            },
        },
    ),
}

_COMPLETION_RESPONSES: Mapping[int, Content] = {
    200: Content(
        "Streaming: SSE stream of completion events. Non-streaming: a single JSON object. `X-LLMServe-Seed` "
        "is the seed that was used, `X-LLMServe-Ignored` the fields without effect.",
        {
            "text/event-stream": _events(
                "Each `data:` line is a JSON `CompletionResponse`, one for every token. The stream ends "
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
                "schema": CompletionResponse,
                "examples": {
                    "non-streaming": {
                        "summary": "The whole text",
                        "value": {"message": "The capital of France is Paris.", "token": 0, "tokens": 0},
                    }
                },
            },
        },
    ),
}

_COMPLETION_ERRORS: Mapping[int, str] = {
    400: "The model is not loaded (yet), or the prompt is over the context length.",
    409: "Another client cancelled the calls of the session.",
    410: "The session has expired; the next call begins it anew.",
    500: "Prediction failed.",
    503: "The queue is full; see `Retry-After`.",
}


def routes(services: Services) -> list[Route]:
    """Everything that the dialect serves."""
    return routes_of(LlamaCppApi(services))


class LlamaCppApi:
    """The dialect over the shared services."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._completions = CompletionCalls(services, DIALECT)

    @Endpoint(
        path="/models/load",
        method="POST",
        dialect=_LOADING,
        operation_id="loadModel",
        summary="Load a model",
        description=(
            "Loads a GGUF model. Returns an SSE stream of progress events; the model is ready after "
            "the final `[DONE]`. If it is already loaded, the operation completes immediately. "
            "Clients that load one path at the same time share one load; the last one to leave "
            "cancels it. With `model` instead of `path`, the load begins and the answer comes at once, as "
            "from llama-server's router; `GET /models` then shows its `status`."
        ),
        body=LoadModelRequest,
        responses=_LOAD_RESPONSES,
        errors=_LOAD_ERRORS,
    )
    async def load_model(self, exchange: Exchange) -> None:
        """`POST /models/load`."""
        # A missing body has no path.
        parsed = await exchange.read_as(read_load, may_be_empty=True)
        request = parsed.value
        if isinstance(request, LoadByIdRequest):
            await self._services.on_demand.begin(request.model)
            await exchange.send_json({"success": True}, headers=answer_headers(parsed.unknown))
            return
        path = self._services.models_folder.admit(request.path, "path", exchange.request.scope)
        with self._services.registry.load(path, IDLE_PIN, kind="generation") as ticket:
            await exchange.send_events(
                _progress_frames(ticket), _render_load_error, headers=answer_headers(parsed.unknown)
            )

    @Endpoint(
        path="/completions",
        method="POST",
        dialect=LLAMACPP,
        operation_id="completions",
        summary="Generate text completion",
        description=(
            "Generates text from a prompt using a loaded model. With `stream` true the answer is an "
            "SSE stream with one event per token, which ends with `data: [DONE]`; else a single "
            "JSON object with the whole text. A client that disconnects cancels its request."
        ),
        body=CompletionRequest,
        responses=_COMPLETION_RESPONSES,
        errors=_COMPLETION_ERRORS,
        parameters=[SESSION],
    )
    async def complete(self, exchange: Exchange) -> None:
        """`POST /completions`."""
        parsed = await exchange.read(CompletionRequest)
        with self._completions.begin(parsed, SESSION.of(exchange.request.scope)) as call:
            headers = answer_headers(call.ignored, seed=call.params.seed)
            if call.wants_tokens:
                await self._send_output(exchange, call, headers)
            elif call.request.stream:
                await exchange.send_events(_no_frames(), _render_completion_error, headers=headers)
            else:
                await exchange.send_json(convert.whole_answer(""), headers=headers)

    async def _send_output(self, exchange: Exchange, call: CompletionCall, headers: dict[str, str]) -> None:
        async with self._completions.run(call) as run:
            if call.request.stream:
                await exchange.send_events(_token_frames(run), _render_completion_error, headers=headers)
                return
            completion = await (await run.output()).result()
            run.check_end(completion.finish_reason, CallCancelledError)
        await exchange.send_json(convert.whole_answer(completion.text), headers=headers)


async def _token_frames(run: Run[Stream]) -> AsyncGenerator[bytes, None]:
    frames = convert.TokenFrames()
    output = await run.output()
    async for delta in output:
        # Events of one delta leave together: one write instead of many.
        yield b"".join(frames.render(delta))
    run.check_end((await output.result()).finish_reason, CallCancelledError)
    yield DONE


async def _progress_frames(ticket: LoadTicket) -> AsyncGenerator[bytes, None]:
    async for progress in whole_percents(ticket):
        yield convert.progress_frame(progress)
    yield DONE


async def _no_frames() -> AsyncGenerator[bytes, None]:
    yield DONE


def _render_load_error(error: Exception) -> bytes:
    return convert.fault_frame(fault_of(error, DIALECT).message)


def _render_completion_error(error: Exception) -> bytes:
    return convert.fault_frame(convert.completion_message(fault_of(error, DIALECT)))
