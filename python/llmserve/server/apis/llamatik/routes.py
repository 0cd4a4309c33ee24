"""Routes of the Llamatik dialect."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from llmserve.server.apis.llamatik import convert, operations, prompts
from llmserve.server.apis.llamatik.answers import (
    ChatTemplateAnswer,
    FinetuneTypeAnswer,
    OkAnswer,
    RenderedPromptAnswer,
)
from llmserve.server.apis.llamatik.generation import DEFAULT_SESSION, DIALECT, Generation
from llmserve.server.apis.llamatik.mtp import Mtp
from llmserve.server.apis.llamatik.operations import PREFIX, Operation
from llmserve.server.apis.llamatik.params import Params
from llmserve.server.apis.llamatik.schema import (
    ChatTemplateRequest,
    EmptyRequest,
    InitRequest,
    MtpInitRequest,
    ParamsFields,
    SessionFileRequest,
    SessionRequest,
)
from llmserve.server.apis.llamatik.state import Choice, GenerationModel
from llmserve.server.refusals import PathNotAllowedError
from llmserve.server.services import Services
from llmserve.server.stale_files import is_temporary
from llmserve.server.web.endpoint import Endpoint, Serve
from llmserve.server.web.errors import ErrorShape
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.fields import dump
from llmserve.server.web.headers import answer_headers
from llmserve.server.web.session_names import session_of
from llmserve.server.web.tasks import end_task
from llmserve.session import Session

SHAPES = (ErrorShape(DIALECT, PREFIX, convert.render_fault),)


class LlamatikApi:
    """The dialect over the shared services."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._model = GenerationModel(services.registry, DIALECT)
        self._params = Params(services.registry.default_config)
        self._mtp = Mtp(self._model)
        self._generation = Generation(services, self._model, self._params, self._mtp)
        self._reloading = asyncio.Lock()

    def endpoints(self) -> list[Endpoint]:
        """Everything that the dialect serves."""
        served: list[tuple[Operation, Serve]] = [
            (operations.INIT, self.init),
            (operations.PARAMS, self.set_params),
            (operations.READ_PARAMS, self.read_params),
            (operations.CANCEL, self.cancel),
            (operations.SHUTDOWN, self.shutdown),
            (operations.SESSION_RESET, self.reset_session),
            (operations.SESSION_SAVE, self.save_session),
            (operations.SESSION_LOAD, self.load_session),
            (operations.FINETUNE_TYPE, self.finetune_type),
            (operations.CHAT_TEMPLATE, self.chat_template),
            (operations.APPLY_CHAT_TEMPLATE, self.apply_chat_template),
            (operations.MTP_INIT, self.init_mtp),
            (operations.MTP_SHUTDOWN, self.shutdown_mtp),
        ]
        generation = [
            operations.generation_endpoint(route, functools.partial(self._generation.serve, route=route))
            for route in operations.GENERATION_ROUTES
        ]
        return [*(operations.endpoint(operation, serve) for operation, serve in served), *generation]

    async def init(self, exchange: Exchange) -> None:
        """`POST init`."""
        parsed = await exchange.read(InitRequest)
        path = self._services.models_folder.admit(parsed.value.model_path, exchange.request.scope)
        former = self._model.current
        await self._model.init(path, lambda: self._params.config)
        if former is not None and former.path != path:
            self._services.sessions.drop(former, DEFAULT_SESSION)
        await _send_ok(exchange, parsed.unknown)

    async def set_params(self, exchange: Exchange) -> None:
        """`POST params`."""
        parsed = await exchange.read(ParamsFields)
        given = parsed.value
        self._params.check(given)
        if given.loading:
            await self._reload(given)
        else:
            self._params.merge(given)
        await _send_ok(exchange, parsed.unknown)

    async def read_params(self, exchange: Exchange) -> None:
        """`GET params`."""
        model = self._model.current
        config = model.config if model is not None else self._params.config
        info = model.engine.info if model is not None and model.engine is not None else None
        await exchange.send_json(convert.values_in_force(self._params.sampling, config, info))

    async def cancel(self, exchange: Exchange) -> None:
        """`POST cancel`."""
        parsed = await exchange.read(SessionRequest, may_be_empty=True)
        name = _session_name(exchange, parsed.value)
        self._services.sessions.cancel(name, DIALECT, self._model.current)
        await _send_ok(exchange, parsed.unknown)

    async def shutdown(self, exchange: Exchange) -> None:
        """`POST shutdown`."""
        parsed = await exchange.read(EmptyRequest, may_be_empty=True)
        former = self._model.current
        self._model.shutdown()
        if former is not None:
            self._services.sessions.drop(former, DEFAULT_SESSION)
            await self._services.registry.wait_closed()
        await _send_ok(exchange, parsed.unknown)

    async def reset_session(self, exchange: Exchange) -> None:
        """`POST session/reset`."""
        parsed = await exchange.read(SessionRequest, may_be_empty=True)
        await self._session_call(exchange, parsed.value, lambda session: session.reset())
        await _send_ok(exchange, parsed.unknown)

    async def save_session(self, exchange: Exchange) -> None:
        """`POST session/save`."""
        parsed = await exchange.read(SessionFileRequest)
        path = self._services.sessions_folder.admit(parsed.value.path, exchange.request.scope)
        if is_temporary(path):  # a later start would remove it
            raise PathNotAllowedError
        await self._session_call(exchange, parsed.value, lambda session: session.save(path), goes_on=True)
        await _send_ok(exchange, parsed.unknown)

    async def load_session(self, exchange: Exchange) -> None:
        """`POST session/load`."""
        parsed = await exchange.read(SessionFileRequest)
        path = self._services.sessions_folder.admit(parsed.value.path, exchange.request.scope)
        await self._session_call(exchange, parsed.value, lambda session: session.load(path))
        await _send_ok(exchange, parsed.unknown)

    async def finetune_type(self, exchange: Exchange) -> None:
        """`GET model/finetuneType`."""
        with self._model.use() as (_, engine):
            answer = FinetuneTypeAnswer(finetune_type=engine.metadata.get("general.finetune"))
        await exchange.send_json(dump(answer))

    async def chat_template(self, exchange: Exchange) -> None:
        """`GET model/chatTemplate`."""
        with self._model.use() as (_, engine):
            answer = ChatTemplateAnswer(chat_template=engine.chat_template)
        await exchange.send_json(dump(answer))

    async def apply_chat_template(self, exchange: Exchange) -> None:
        """`POST model/applyChatTemplate`."""
        parsed = await exchange.read(ChatTemplateRequest)
        request = parsed.value
        with self._model.use() as (_, engine):
            prompt = await prompts.rendered(engine, request.messages, request.add_assistant_prefix)
        answer = RenderedPromptAnswer(prompt=prompt)
        await exchange.send_json(dump(answer), headers=answer_headers(parsed.unknown))

    async def init_mtp(self, exchange: Exchange) -> None:
        """`POST mtp/init`."""
        parsed = await exchange.read(MtpInitRequest)
        request = parsed.value
        path = self._services.models_folder.admit(request.model_path, exchange.request.scope)
        await self._mtp.init(path, request.draft_len, request.adaptive)
        await _send_ok(exchange, parsed.unknown)

    async def shutdown_mtp(self, exchange: Exchange) -> None:
        """`POST mtp/shutdown`."""
        parsed = await exchange.read(EmptyRequest, may_be_empty=True)
        await self._mtp.shutdown()
        await _send_ok(exchange, parsed.unknown)

    async def _reload(self, given: ParamsFields) -> None:
        """Takes parameters with load options; the model is loaded anew where they change anything."""
        async with self._reloading:
            await self._model.settled()
            config = self._params.config_with(given)
            former = self._model.current
            if former is None or former.config == config:
                self._params.merge(given)
                return
            registry = self._services.registry
            with registry.use_model(former):
                model = await self._model.reload(Choice(former.path, config))
                # No other task runs before this is done, so that none finds the model without its sessions.
                self._params.merge(given)
                self._services.session_moves.carry_over(former, model)

    async def _session_call(
        self,
        exchange: Exchange,
        request: SessionRequest,
        run: Callable[[Session], Coroutine[Any, Any, None]],
        *,
        goes_on: bool = False,
    ) -> None:
        """Does something with a session, after the calls before it.

        Those that come after are submitted while it waits for its turn.
        """
        name = _session_name(exchange, request)
        sessions = self._services.sessions
        job: asyncio.Task[None] | None = None
        with self._model.use() as (model, _), sessions.call(model, name, DIALECT, goes_on=goes_on) as call:
            try:
                async with call.in_order() as session:
                    job = asyncio.create_task(run(session))
                    await asyncio.sleep(0)  # in its first step it is given to the engine
                await job
            finally:
                if job is not None:
                    await end_task(job)


def _session_name(exchange: Exchange, request: SessionRequest) -> str:
    return session_of(exchange.request.scope, request.session_id, "sessionId") or DEFAULT_SESSION


async def _send_ok(exchange: Exchange, unknown: Sequence[str]) -> None:
    await exchange.send_json(dump(OkAnswer()), headers=answer_headers(unknown))
