"""The ten routes that generate: one flow, told apart by the request's type and by how it answers."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass

from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.llamatik import convert, prompts
from llmserve.server.apis.llamatik.errors import DIALECT
from llmserve.server.apis.llamatik.generation_routes import GenerationRoute
from llmserve.server.apis.llamatik.mtp import Mtp
from llmserve.server.apis.llamatik.params import Params
from llmserve.server.apis.llamatik.schema import AnyGenerationRequest, ContinueRequest
from llmserve.server.apis.llamatik.state import ChosenModel
from llmserve.server.fields.sampling import sampling_params
from llmserve.server.generation import Call, Run
from llmserve.server.refusals import CallCancelledError
from llmserve.server.services import Services
from llmserve.server.web.errors import fault_of
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.headers import answer_headers
from llmserve.server.web.session_names import session_of
from llmserve.stream import Stream
from llmserve.types import Completion

DEFAULT_SESSION = "llamatik default"
"""The session of calls that name none. A client can give no name with a space."""


class Generation:
    """Serves the generation routes."""

    def __init__(self, services: Services, model: ChosenModel, params: Params, mtp: Mtp) -> None:
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
        with self._model.use() as (model, engine):
            drafting = functools.partial(self._mtp.drafting, model, engine)
            place = functools.partial(self._services.generation.admission.place, model)
            manner = prompts.Manner(plan.params, not route.is_stream, place, drafting)
            call = Call(
                dialect=DIALECT,
                model=model,
                starts=[prompts.start(request, manner)],
                is_stream=route.is_stream,
                session=name,
                goes_on=isinstance(request, ContinueRequest),
            )
            async with self._services.generation.run(call) as run:
                await self._answer(exchange, run, plan)

    def _plan(self, route: GenerationRoute, request: AnyGenerationRequest, unknown: Sequence[str]) -> _Plan:
        json_schema = convert.json_schema(request)
        values = {**self._params.sampling, **request.sampling}
        params = sampling_params(values, json_schema=json_schema)
        ignored = [*unknown, *(["stop"] if json_schema is not None and params.stop else [])]
        return _Plan(params, answer_headers(ignored, seed=params.seed), route.is_stream)

    async def _answer(self, exchange: Exchange, run: Run[Stream], plan: _Plan) -> None:
        if not plan.is_stream or run.is_cancelled:
            completion = await (await run.output()).result()
            _check_end(run, completion, plan)
        if plan.is_stream:
            await exchange.send_events(_frames(run, plan), _render_error, headers=plan.headers)
        else:
            await exchange.send_json(convert.answer(completion), headers=plan.headers)


@dataclass(frozen=True, slots=True)
class _Plan:
    params: SamplingParams
    headers: Mapping[str, str]
    is_stream: bool


async def _frames(run: Run[Stream], plan: _Plan) -> AsyncGenerator[bytes, None]:
    output = await run.output()
    async for delta in output:
        if frame := convert.delta_frame(delta):
            yield frame
    completion = await output.result()
    _check_end(run, completion, plan)
    yield convert.done_frame(completion)


def _check_end(run: Run[Stream], completion: Completion, plan: _Plan) -> None:
    run.check_end(completion.finish_reason)
    is_cut = completion.finish_reason == "cancelled" and not completion.is_complete
    if is_cut and plan.params.json_schema is not None:
        raise CallCancelledError("the call was cancelled before it had a whole document")


def _render_error(error: Exception) -> bytes:
    return convert.error_frame(convert.fault_message(fault_of(error, DIALECT)))
