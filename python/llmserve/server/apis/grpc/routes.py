"""The methods of the service ``proto.LLMServer``."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import grpc

from llmserve.server.apis.completions.calls import CompletionCall, CompletionCalls
from llmserve.server.apis.grpc import convert, schema
from llmserve.server.apis.grpc import llmserver_pb2 as pb
from llmserve.server.apis.grpc.answers import DIALECT, Context, answering, write_all
from llmserve.server.apis.progress import whole_percents
from llmserve.server.generation import Run
from llmserve.server.models import IDLE_PIN, LoadTicket
from llmserve.server.refusals import CallCancelledError
from llmserve.server.services import Services
from llmserve.server.web.session_names import SESSION
from llmserve.stream import Stream

SERVICE = pb.DESCRIPTOR.services_by_name["LLMServer"].full_name

METHODS = tuple(f"{SERVICE}/{method.name}" for method in pb.DESCRIPTOR.services_by_name["LLMServer"].methods)
"""Full names."""


class LlmServer:
    """The service over the shared services.

    Methods take messages as bytes: what cannot be read is then refused with a status of ours.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._completions = CompletionCalls(services, DIALECT, waits_long=True)
        self._stall_s = services.settings.stall_s

    def handler(self) -> grpc.GenericRpcHandler[Any, Any]:
        """The methods, as gRPC's servers take them."""
        methods = {
            "Ping": grpc.unary_unary_rpc_method_handler(
                self.ping, response_serializer=pb.PingResponse.SerializeToString
            ),
            "LoadModel": grpc.unary_stream_rpc_method_handler(
                self.load_model, response_serializer=pb.LoadModelResponse.SerializeToString
            ),
            "Predict": grpc.unary_stream_rpc_method_handler(
                self.predict, response_serializer=pb.PredictResponse.SerializeToString
            ),
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    async def ping(self, data: bytes, context: Context[Any, Any]) -> pb.PingResponse:
        """Answers a ping at once."""
        async with answering(context, self._services.lifecycle):
            return pb.PingResponse()

    async def load_model(self, data: bytes, context: Context[Any, Any]) -> None:
        """Loads a model and reports the progress."""
        async with answering(context, self._services.lifecycle) as scope:
            parsed = schema.read_load(data)
            path = self._services.models_folder.admit(parsed.value.path, "path", scope)
            with self._services.registry.load(path, IDLE_PIN, kind="generation") as ticket:
                await context.send_initial_metadata(convert.head(parsed.unknown))
                await write_all(context, _progress_messages(ticket), self._stall_s)

    async def predict(self, data: bytes, context: Context[Any, Any]) -> None:
        """Generates a text."""
        async with answering(context, self._services.lifecycle) as scope:
            parsed = schema.read_predict(data)
            with self._completions.begin(parsed, SESSION.of(scope)) as call:
                head = convert.head(call.ignored, call.params.seed)
                if not call.wants_tokens:
                    await context.send_initial_metadata(head)
                    return
                async with self._completions.run(call) as run:
                    await context.send_initial_metadata(head)
                    await write_all(context, _output(call, run), self._stall_s)


async def _output(call: CompletionCall, run: Run[Stream]) -> AsyncGenerator[pb.PredictResponse, None]:
    output = await run.output()
    if call.request.stream:
        messages = convert.TokenMessages()
        async for delta in output:
            for message in messages.render(delta):
                yield message
    completion = await output.result()
    run.check_end(completion.finish_reason)
    if not call.request.stream:
        yield convert.whole_answer(completion.text)
    run.check_end(completion.finish_reason, CallCancelledError)


async def _progress_messages(ticket: LoadTicket) -> AsyncGenerator[pb.LoadModelResponse, None]:
    async for progress in whole_percents(ticket):
        yield pb.LoadModelResponse(progress=progress)
