"""Routes of the llamacpp-server dialect."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from llmserve.apis.llamacpp import convert
from llmserve.apis.llamacpp.operations import COMPLETION_RESPONSES, LOAD_RESPONSES
from llmserve.apis.llamacpp.schema import CompletionRequest, LoadModelRequest
from llmserve.engine import Engine
from llmserve.errors import ContextExceededError
from llmserve.http.acceptance import accepted_within
from llmserve.http.endpoint import Endpoint
from llmserve.http.errors import ErrorShape, fault_of
from llmserve.http.exchange import Exchange
from llmserve.http.headers import ignored_header
from llmserve.http.schema import read
from llmserve.http.session_names import header_session
from llmserve.http.sse import DONE
from llmserve.lifecycle import Lifecycle
from llmserve.refusals import ServerStoppingError
from llmserve.registry import LoadTicket, Model
from llmserve.sampling_params import SamplingParams
from llmserve.services import Services
from llmserve.stream import Stream
from llmserve.types import Completion

logger = logging.getLogger(__name__)

DIALECT = "llamacpp"

SHAPES = (
    ErrorShape(DIALECT, "/models/load", convert.render_load_fault),
    ErrorShape(DIALECT, "/completions", convert.render_completion_fault),
)


class LlamaCppApi:
    """The dialect over the shared services."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._reported: set[str] = set()

    def endpoints(self) -> list[Endpoint]:
        """Everything that the dialect serves."""
        return [
            Endpoint(
                path="/models/load",
                method="POST",
                serve=self.load_model,
                operation_id="loadModel",
                summary="Load a model",
                description=(
                    "Loads a GGUF model. Returns an SSE stream of progress events; the model is ready after "
                    "the final `[DONE]`. If it is already loaded, the operation completes immediately. "
                    "Clients that load one path at the same time share one load; the last one to leave "
                    "cancels it."
                ),
                body=LoadModelRequest,
                responses=LOAD_RESPONSES,
            ),
            Endpoint(
                path="/completions",
                method="POST",
                serve=self.complete,
                operation_id="completions",
                summary="Generate text completion",
                description=(
                    "Generates text from a prompt using a loaded model. With `stream` true the answer is an "
                    "SSE stream with one event per token, which ends with `data: [DONE]`; else a single "
                    "JSON object with the whole text. A client that disconnects cancels its request."
                ),
                body=CompletionRequest,
                responses=COMPLETION_RESPONSES,
            ),
        ]

    async def load_model(self, exchange: Exchange) -> None:
        """`POST /models/load`."""
        parsed = read(LoadModelRequest, await exchange.read_object())
        path = self._services.models_folder.admit(parsed.value.path, exchange.request.scope)
        with self._services.registry.load(path, DIALECT) as ticket:
            await exchange.send_events(
                _progress_frames(ticket), _render_load_error, headers=_headers(parsed.unknown)
            )

    async def complete(self, exchange: Exchange) -> None:
        """`POST /completions`."""
        parsed = read(CompletionRequest, await exchange.read_object())
        request = parsed.value
        name = header_session(exchange.request.scope)
        model = self._services.registry.pick(self._services.models_folder.resolve(request.model))
        with self._services.registry.use_model(model) as engine:
            ignored = [*parsed.unknown, *convert.ignored_options(request.options, engine.info)]
            self._report(ignored)
            params = convert.sampling_params(request)
            headers = {**_headers(ignored), "X-LLMServe-Seed": str(params.seed)}
            if convert.num_tokens_wanted(request) == 0:
                await self._send_nothing(exchange, request, headers)
            else:
                async with self._submitted(engine, request, params, (model, name)) as stream:
                    await self._send_output(exchange, request, stream, headers)

    @asynccontextmanager
    async def _submitted(
        self,
        engine: Engine,
        request: CompletionRequest,
        params: SamplingParams,
        session: tuple[Model, str | None],
    ) -> AsyncGenerator[Stream, None]:
        """The running request, as a call of its session where it has one."""
        at_end = not request.stream
        model, name = session
        if name is None:
            async with engine.stream(request.prompt, params, at_end=at_end) as stream:
                yield stream
            return
        with self._services.sessions.call(model, name, DIALECT, goes_on=True) as call:
            async with call.submitting() as used:
                stream = engine.stream(request.prompt, params, session=used, append=True, at_end=at_end)
                call.attach(stream)
            async with stream:
                yield stream

    async def _send_nothing(
        self, exchange: Exchange, request: CompletionRequest, headers: dict[str, str]
    ) -> None:
        if request.stream:
            await exchange.send_events(_no_frames(), _render_completion_error, headers=headers)
        else:
            await exchange.send_json(convert.whole_answer(""), headers=headers)

    async def _send_output(
        self, exchange: Exchange, request: CompletionRequest, stream: Stream, headers: dict[str, str]
    ) -> None:
        lifecycle = self._services.lifecycle
        with lifecycle.running(stream.abort):
            # Refusals are raised here, while the answer can still have their status.
            patience_s = self._services.settings.sse_ping_s if request.stream else None
            try:
                await accepted_within(stream, patience_s)
            except ContextExceededError as error:
                raise convert.prompt_refusal(error, request.options) from None
            if lifecycle.is_stopping:  # then it was aborted
                raise ServerStoppingError
            if request.stream:
                frames = _token_frames(stream, lifecycle)
                await exchange.send_events(frames, _render_completion_error, headers=headers)
                return
            completion = await stream.result()
        _check_end(completion, lifecycle)
        await exchange.send_json(convert.whole_answer(completion.text), headers=headers)

    def _report(self, ignored: Sequence[str]) -> None:
        """Logs each option without effect once."""
        for name in ignored:
            if name.startswith("options.") and name not in self._reported and len(self._reported) < 1000:
                self._reported.add(name)
                logger.warning("%s has no effect here and is ignored", ignored_header([name]))


def _headers(ignored: Sequence[str]) -> dict[str, str]:
    return {"X-LLMServe-Ignored": ignored_header(ignored)} if ignored else {}


async def _progress_frames(ticket: LoadTicket) -> AsyncGenerator[bytes, None]:
    steps = convert.ProgressSteps()
    async for progress in ticket.progress():
        if (step := steps.next(progress)) is not None:
            yield convert.progress_frame(step)
    yield convert.progress_frame(1)
    yield DONE


async def _token_frames(stream: Stream, lifecycle: Lifecycle) -> AsyncGenerator[bytes, None]:
    frames = convert.TokenFrames()
    async for delta in stream:
        # Events of one delta leave together: one write instead of many.
        yield b"".join(frames.render(delta))
    _check_end(await stream.result(), lifecycle)
    yield DONE


def _check_end(completion: Completion, lifecycle: Lifecycle) -> None:
    """A call that another dialect cancelled in their common session ends with what there is."""
    if completion.finish_reason == "cancelled" and lifecycle.is_stopping:
        raise ServerStoppingError


async def _no_frames() -> AsyncGenerator[bytes, None]:
    yield DONE


def _render_load_error(error: Exception) -> bytes:
    return convert.fault_frame(convert.load_message(fault_of(error, DIALECT)))


def _render_completion_error(error: Exception) -> bytes:
    return convert.fault_frame(convert.completion_message(fault_of(error, DIALECT)))
