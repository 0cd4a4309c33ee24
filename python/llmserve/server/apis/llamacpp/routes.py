"""Routes of the llamacpp-server dialect."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from llmserve.server.apis.completions.calls import CompletionCall, CompletionCalls
from llmserve.server.apis.completions.schema import CompletionRequest
from llmserve.server.apis.llamacpp import convert
from llmserve.server.apis.llamacpp.operations import COMPLETION_RESPONSES, LOAD_RESPONSES
from llmserve.server.apis.llamacpp.schema import LoadModelRequest
from llmserve.server.apis.progress import ProgressSteps
from llmserve.server.generation import Run
from llmserve.server.models import IDLE_PIN, LoadTicket
from llmserve.server.services import Services
from llmserve.server.web.endpoint import Endpoint
from llmserve.server.web.errors import ErrorShape, fault_of
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.headers import answer_headers
from llmserve.server.web.session_names import header_session
from llmserve.server.web.sse import DONE
from llmserve.stream import Stream

DIALECT = "llamacpp"

SHAPES = (
    ErrorShape(DIALECT, "/models/load", convert.render_load_fault),
    ErrorShape(DIALECT, "/completions", convert.render_completion_fault),
)


class LlamaCppApi:
    """The dialect over the shared services."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._completions = CompletionCalls(services, DIALECT)

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
        # No body at all has no path.
        parsed = await exchange.read(LoadModelRequest, may_be_empty=True)
        path = self._services.models_folder.admit(parsed.value.path, exchange.request.scope)
        with self._services.registry.load(path, IDLE_PIN, kind="generation") as ticket:
            await exchange.send_events(
                _progress_frames(ticket), _render_load_error, headers=answer_headers(parsed.unknown)
            )

    async def complete(self, exchange: Exchange) -> None:
        """`POST /completions`."""
        parsed = await exchange.read(CompletionRequest)
        with self._completions.begin(parsed, header_session(exchange.request.scope)) as call:
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
            completion = await run.output.result()
            run.check_end(completion.finish_reason)
        await exchange.send_json(convert.whole_answer(completion.text), headers=headers)


async def _token_frames(run: Run[Stream]) -> AsyncGenerator[bytes, None]:
    frames = convert.TokenFrames()
    async for delta in run.output:
        # Events of one delta leave together: one write instead of many.
        yield b"".join(frames.render(delta))
    run.check_end((await run.output.result()).finish_reason)
    yield DONE


async def _progress_frames(ticket: LoadTicket) -> AsyncGenerator[bytes, None]:
    steps = ProgressSteps()
    async for progress in ticket.progress():
        if (step := steps.next(progress)) is not None:
            yield convert.progress_frame(step)
    yield convert.progress_frame(1)
    yield DONE


async def _no_frames() -> AsyncGenerator[bytes, None]:
    yield DONE


def _render_load_error(error: Exception) -> bytes:
    return convert.fault_frame(fault_of(error, DIALECT).message)


def _render_completion_error(error: Exception) -> bytes:
    return convert.fault_frame(convert.completion_message(fault_of(error, DIALECT)))
