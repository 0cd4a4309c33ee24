"""Routes of the Llamatik dialect."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from llmserve.server.apis.llamatik import convert
from llmserve.server.apis.llamatik.answers import (
    ChatTemplateAnswer,
    FinetuneTypeAnswer,
    OkAnswer,
    RenderedPromptAnswer,
    SavedAnswer,
)
from llmserve.server.apis.llamatik.contents import DONE, NO_MODEL, NOT_LOCAL, SESSION_EXPIRED
from llmserve.server.apis.llamatik.embeddings import EmbeddingRoutes
from llmserve.server.apis.llamatik.errors import DIALECT, LLAMATIK, PREFIX
from llmserve.server.apis.llamatik.generation import DEFAULT_SESSION, Generation
from llmserve.server.apis.llamatik.generation_routes import GENERATION_ROUTES
from llmserve.server.apis.llamatik.mtp import Mtp
from llmserve.server.apis.llamatik.params import Params
from llmserve.server.apis.llamatik.schema import (
    ChatTemplateRequest,
    EmptyRequest,
    InitRequest,
    MtpInitRequest,
    ParamsFields,
    ParamsRequest,
    SessionFileRequest,
    SessionRequest,
)
from llmserve.server.apis.llamatik.state import Choice, ChosenModel
from llmserve.server.models.session_work import work_in_order
from llmserve.server.refusals import PathNotAllowedError
from llmserve.server.services import Services
from llmserve.server.stale_files import is_temporary
from llmserve.server.web.endpoint import Content, Endpoint, Route, json_of, routes_of
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.fields import dump
from llmserve.server.web.headers import answer_headers
from llmserve.server.web.session_names import SESSION, session_of
from llmserve.session import Session

T = TypeVar("T")

_get = functools.partial(Endpoint, method="GET", dialect=LLAMATIK)
_post = functools.partial(Endpoint, method="POST", dialect=LLAMATIK)

_FILE_ERRORS = {400: "The path is outside the folder, or the file is wrong.", 403: NOT_LOCAL, 409: NO_MODEL}


def routes(services: Services) -> list[Route]:
    """Everything that the dialect serves."""
    return LlamatikApi(services).routes()


class LlamatikApi:
    """The dialect over the shared services."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._model = ChosenModel(services.registry, DIALECT)
        self._params = Params(services.registry.default_config)
        self._mtp = Mtp(self._model)
        self._generation = Generation(services, self._model, self._params, self._mtp)
        self._embeddings = EmbeddingRoutes(services)
        self._reloading = asyncio.Lock()

    def routes(self) -> list[Route]:
        """Everything that the dialect serves."""
        generation = [
            Route(route.endpoint, functools.partial(self._generation.serve, route=route))
            for route in GENERATION_ROUTES
        ]
        return [*routes_of(self), *generation, *routes_of(self._embeddings)]

    @_post(
        path=f"{PREFIX}/init",
        operation_id="initGeneration",
        summary="Load the generation model",
        description=(
            "Loads a GGUF model and makes it the one of all routes here. The same path again answers at "
            "once; another one replaces it, and the former is released when its running requests end. Calls "
            "for a path that is being loaded wait for it; the last one to leave cancels the load."
        ),
        responses=DONE,
        errors={
            400: "The path is outside the folder, or the model fails to load.",
            403: NOT_LOCAL,
            409: "Another model is being loaded.",
        },
        body=InitRequest,
    )
    async def init(self, exchange: Exchange) -> None:
        """`POST init`."""
        parsed = await exchange.read(InitRequest)
        path = self._services.models_folder.admit(
            parsed.value.model_path, "modelPath", exchange.request.scope
        )
        former = self._model.current
        await self._model.init(path, lambda: self._params.config)
        if former is not None and former.path != path:
            self._services.sessions.drop(former, DEFAULT_SESSION)
        await _send_ok(exchange, parsed.unknown)

    @_post(
        path=f"{PREFIX}/params",
        operation_id="setGenerationParams",
        summary="Set parameters",
        description=(
            "Merges the given fields into the parameters of all sessions. Sampling fields apply from "
            "the next request on; load options reload the model for this dialect; running requests finish. "
            "Nothing changes if a field is wrong or the model cannot be loaded like that."
        ),
        responses=DONE,
        errors={400: "The model cannot be loaded so.", 409: "`shutdown` came in between."},
        body=ParamsRequest,
    )
    async def set_params(self, exchange: Exchange) -> None:
        """`POST params`."""
        parsed = await exchange.read(ParamsRequest)
        given = parsed.value
        self._params.check(given)
        if given.loading:
            await self._reload(given)
        else:
            self._params.merge(given)
        await _send_ok(exchange, parsed.unknown)

    @_get(
        path=f"{PREFIX}/params",
        operation_id="generationParams",
        summary="Read parameters",
        description=(
            "The values in force. Those that the engine chooses are null before a model is loaded; "
            "`flashAttention` is null if llama.cpp decides."
        ),
        responses={200: Content("The values.", json_of(ParamsFields))},
    )
    async def read_params(self, exchange: Exchange) -> None:
        """`GET params`."""
        model = self._model.current
        config = model.config if model is not None else self._params.config
        info = model.engine.info if model is not None and model.engine is not None else None
        await exchange.send_json(convert.values_in_force(self._params.sampling, config, info))

    @_post(
        path=f"{PREFIX}/cancel",
        operation_id="cancelGeneration",
        summary="Cancel a session's calls",
        description=("Ends what runs or waits in the default session, or in the named one, within one step."),
        responses=DONE,
        parameters=[SESSION],
        body=SessionRequest,
        needs_body=False,
    )
    async def cancel(self, exchange: Exchange) -> None:
        """`POST cancel`."""
        parsed = await exchange.read(SessionRequest, may_be_empty=True)
        name = _session_name(exchange, parsed.value)
        self._services.sessions.cancel(name, DIALECT, self._model.current)
        await _send_ok(exchange, parsed.unknown)

    @_post(
        path=f"{PREFIX}/shutdown",
        operation_id="shutdownGeneration",
        summary="Unload the model",
        description=(
            "Ends this dialect's use of its models, also the one for embeddings. Running requests "
            "finish; memory goes when nobody uses it."
        ),
        responses=DONE,
        body=EmptyRequest,
        needs_body=False,
    )
    async def shutdown(self, exchange: Exchange) -> None:
        """`POST shutdown`."""
        parsed = await exchange.read(EmptyRequest, may_be_empty=True)
        former = self._model.current
        had_embeddings = self._embeddings.model.current is not None
        self._model.shutdown()
        self._embeddings.model.shutdown()
        if former is not None:
            self._services.sessions.drop(former, DEFAULT_SESSION)
        if former is not None or had_embeddings:
            await self._services.registry.wait_closed()
        await _send_ok(exchange, parsed.unknown)

    @_post(
        path=f"{PREFIX}/session/reset",
        operation_id="resetSession",
        summary="Empty a session",
        description="Empties the default session, or the named one, after its running call.",
        responses=DONE,
        errors={409: NO_MODEL},
        parameters=[SESSION],
        body=SessionRequest,
        needs_body=False,
    )
    async def reset_session(self, exchange: Exchange) -> None:
        """`POST session/reset`."""
        parsed = await exchange.read(SessionRequest, may_be_empty=True)
        await self._session_call(exchange, parsed.value, lambda session: session.reset())
        await _send_ok(exchange, parsed.unknown)

    @_post(
        path=f"{PREFIX}/session/save",
        operation_id="saveSession",
        summary="Save a session",
        description=(
            "Writes the session's tokens and their state to a file, which appears as a whole or not at all. "
            "Only a session's file is replaced."
        ),
        responses={200: Content("Saved.", json_of(SavedAnswer))},
        errors={**_FILE_ERRORS, 404: "There is no session of this name.", 410: SESSION_EXPIRED},
        parameters=[SESSION],
        body=SessionFileRequest,
    )
    async def save_session(self, exchange: Exchange) -> None:
        """`POST session/save`."""
        parsed = await exchange.read(SessionFileRequest)
        path = self._services.sessions_folder.admit(parsed.value.path, "path", exchange.request.scope)
        if is_temporary(path):  # a later start would remove it
            raise PathNotAllowedError("path")

        async def save(session: Session) -> SavedAnswer:
            await session.save(path)
            size = (await asyncio.to_thread(path.stat)).st_size
            return SavedAnswer(tokens=session.num_tokens, bytes=size)

        saved = await self._session_call(exchange, parsed.value, save, goes_on=True)
        await exchange.send_json(dump(saved), headers=answer_headers(parsed.unknown))

    @_post(
        path=f"{PREFIX}/session/load",
        operation_id="loadSession",
        summary="Load a session",
        description=(
            "Replaces the session by a saved one of the same model. If that fails, the session is unchanged."
        ),
        responses=DONE,
        errors=_FILE_ERRORS,
        parameters=[SESSION],
        body=SessionFileRequest,
    )
    async def load_session(self, exchange: Exchange) -> None:
        """`POST session/load`."""
        parsed = await exchange.read(SessionFileRequest)
        path = self._services.sessions_folder.admit(parsed.value.path, "path", exchange.request.scope)
        await self._session_call(exchange, parsed.value, lambda session: session.load(path))
        await _send_ok(exchange, parsed.unknown)

    @_get(
        path=f"{PREFIX}/model/finetuneType",
        operation_id="finetuneType",
        summary="What the model was tuned for",
        description="The metadata field `general.finetune` of the loaded file.",
        responses={200: Content("The value, or null.", json_of(FinetuneTypeAnswer))},
        errors={409: NO_MODEL},
    )
    async def finetune_type(self, exchange: Exchange) -> None:
        """`GET model/finetuneType`."""
        with self._model.use() as (_, engine):
            answer = FinetuneTypeAnswer(finetune_type=engine.metadata.get("general.finetune"))
        await exchange.send_json(dump(answer))

    @_get(
        path=f"{PREFIX}/model/chatTemplate",
        operation_id="chatTemplate",
        summary="The model's chat template",
        description="The Jinja template of the loaded file.",
        responses={200: Content("The template, or null.", json_of(ChatTemplateAnswer))},
        errors={409: NO_MODEL},
    )
    async def chat_template(self, exchange: Exchange) -> None:
        """`GET model/chatTemplate`."""
        with self._model.use() as (_, engine):
            answer = ChatTemplateAnswer(chat_template=engine.chat_template)
        await exchange.send_json(dump(answer))

    @_post(
        path=f"{PREFIX}/model/applyChatTemplate",
        operation_id="applyChatTemplate",
        summary="Render messages",
        description=(
            "The prompt that the model's chat template makes of messages; without one, a plain layout."
        ),
        responses={200: Content("The prompt.", json_of(RenderedPromptAnswer))},
        errors={
            400: "The template rejects the messages.",
            409: NO_MODEL,
            503: "Too many templates are being rendered; see `Retry-After`.",
        },
        body=ChatTemplateRequest,
    )
    async def apply_chat_template(self, exchange: Exchange) -> None:
        """`POST model/applyChatTemplate`."""
        parsed = await exchange.read(ChatTemplateRequest)
        request = parsed.value
        with self._model.use() as (model, engine), self._services.generation.admission.place(model):
            prompt = await engine.chat_prompt(
                request.messages, add_generation_prompt=request.add_assistant_prefix
            )
        answer = RenderedPromptAnswer(prompt=prompt.text)
        await exchange.send_json(dump(answer), headers=answer_headers(parsed.unknown))

    @_post(
        path=f"{PREFIX}/mtp/init",
        operation_id="initMtp",
        summary="Draft with the model's own head",
        description=(
            "Binds the multi-token prediction (MTP) head of the loaded model: this dialect's requests draft "
            "with it from then on, which changes no text. Calling it again changes the options. `init` of "
            "another model releases it."
        ),
        responses=DONE,
        errors={
            400: "The model has no head, or the path is outside the folder.",
            403: NOT_LOCAL,
            409: "No model is loaded, the path is not that of the loaded model, or a load is running.",
            500: "The draft context could not be created.",
        },
        body=MtpInitRequest,
    )
    async def init_mtp(self, exchange: Exchange) -> None:
        """`POST mtp/init`."""
        parsed = await exchange.read(MtpInitRequest)
        request = parsed.value
        path = self._services.models_folder.admit(request.model_path, "modelPath", exchange.request.scope)
        await self._mtp.init(path, request.draft_len, request.adaptive)
        await _send_ok(exchange, parsed.unknown)

    @_post(
        path=f"{PREFIX}/mtp/shutdown",
        operation_id="shutdownMtp",
        summary="Stop drafting",
        description="Releases what `mtp/init` has bound, if anything; the model stays.",
        responses=DONE,
        errors={409: "A model is being loaded."},
        body=EmptyRequest,
        needs_body=False,
    )
    async def shutdown_mtp(self, exchange: Exchange) -> None:
        """`POST mtp/shutdown`."""
        parsed = await exchange.read(EmptyRequest, may_be_empty=True)
        await self._mtp.shutdown()
        await _send_ok(exchange, parsed.unknown)

    async def _reload(self, given: ParamsFields) -> None:
        """Takes parameters with load options; the model is loaded again if they change anything."""
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
        run: Callable[[Session], Coroutine[Any, Any, T]],
        *,
        goes_on: bool = False,
    ) -> T:
        """Does something with a session, after the calls before it.

        One that ``goes_on`` needs a named session to
        be there.
        """
        name = _session_name(exchange, request)
        must_exist = goes_on and name != DEFAULT_SESSION
        with (
            self._model.use() as (model, _),
            self._services.sessions.call(
                model, name, DIALECT, goes_on=goes_on, must_exist=must_exist
            ) as call,
        ):
            return await work_in_order(call, run)


def _session_name(exchange: Exchange, request: SessionRequest) -> str:
    return session_of(exchange.request.scope, request.session_id, "sessionId") or DEFAULT_SESSION


async def _send_ok(exchange: Exchange, unknown: Sequence[str]) -> None:
    await exchange.send_json(dump(OkAnswer()), headers=answer_headers(unknown))
