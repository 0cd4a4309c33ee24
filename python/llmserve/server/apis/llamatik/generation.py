"""The ten routes that generate: one flow, told apart by the request's type and by how it answers."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass

from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.llamatik import convert, prompts
from llmserve.server.apis.llamatik.mtp import Mtp
from llmserve.server.apis.llamatik.operations import GenerationRoute
from llmserve.server.apis.llamatik.params import Params
from llmserve.server.apis.llamatik.schema import AnyGenerationRequest, ContinueRequest
from llmserve.server.apis.llamatik.state import GenerationModel
from llmserve.server.models import SessionCall
from llmserve.server.refusals import CallCancelledError, ServerStoppingError
from llmserve.server.services import Services
from llmserve.server.web.acceptance import accepted_within
from llmserve.server.web.errors import fault_of
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.headers import ignored_header
from llmserve.server.web.session_names import session_of
from llmserve.stream import Stream
from llmserve.types import Completion

DIALECT = "llamatik"

DEFAULT_SESSION = "llamatik default"
"""The session of calls that name none. A client can give no name with a space."""


class Generation:
    """Serves the generation routes."""

    def __init__(self, services: Services, model: GenerationModel, params: Params, mtp: Mtp) -> None:
        self._services = services
        self._model = model
        self._params = params
        self._mtp = mtp

    async def serve(self, exchange: Exchange, route: GenerationRoute) -> None:
        """Generates, in the request's session."""
        parsed = await exchange.read(route.body, may_be_empty=True)
        request = parsed.value
        scope = exchange.request.scope
        name = session_of(scope, request.session_id, "sessionId") or DEFAULT_SESSION
        plan = self._plan(route, request, parsed.unknown)
        goes_on = isinstance(request, ContinueRequest)
        with (
            self._model.use() as (model, engine),
            self._services.sessions.call(model, name, DIALECT, goes_on=goes_on) as call,
            self._services.lifecycle.running(call.cancel),
        ):
            drafting = functools.partial(self._mtp.drafting, model, engine)
            manner = prompts.Manner(plan.params, not route.is_stream, drafting)
            stream = await prompts.submit(engine, request, manner, call)
            async with stream:
                await self._answer(exchange, stream, call, plan)

    def _plan(self, route: GenerationRoute, request: AnyGenerationRequest, unknown: Sequence[str]) -> _Plan:
        json_schema = convert.json_schema(request)
        values = convert.merged(self._params.sampling, request)
        params = convert.sampling_params(values, json_schema)
        ignored = [*unknown, *(["stop"] if json_schema is not None and values.stop else [])]
        headers = {"X-LLMServe-Seed": str(params.seed)}
        if ignored:
            headers["X-LLMServe-Ignored"] = ignored_header(ignored)
        return _Plan(params, headers, route.is_stream)

    async def _answer(self, exchange: Exchange, stream: Stream, call: SessionCall, plan: _Plan) -> None:
        if plan.is_stream:
            # Refusals are raised here, while the answer can still have their status.
            await accepted_within(stream, self._services.settings.sse_ping_s)
        if not plan.is_stream or call.is_cancelled:
            self._check_end(await stream.result(), plan)
        if plan.is_stream:
            await exchange.send_events(self._frames(stream, plan), _render_error, headers=plan.headers)
        else:
            await exchange.send_json(convert.answer(await stream.result()), headers=plan.headers)

    async def _frames(self, stream: Stream, plan: _Plan) -> AsyncGenerator[bytes, None]:
        async for delta in stream:
            if frame := convert.delta_frame(delta):
                yield frame
        completion = await stream.result()
        self._check_end(completion, plan)
        yield convert.done_frame(completion)

    def _check_end(self, completion: Completion, plan: _Plan) -> None:
        if completion.finish_reason != "cancelled":
            return
        if self._services.lifecycle.is_stopping:
            raise ServerStoppingError
        if plan.params.json_schema is not None and not completion.is_complete:
            raise CallCancelledError("the call was cancelled before it had a whole document")


@dataclass(frozen=True, slots=True)
class _Plan:
    params: SamplingParams
    headers: Mapping[str, str]
    is_stream: bool


def _render_error(error: Exception) -> bytes:
    return convert.error_frame(convert.fault_message(fault_of(error, DIALECT)))
