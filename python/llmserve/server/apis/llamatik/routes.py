"""Routes of the Llamatik dialect."""

from __future__ import annotations

import asyncio
import functools

from llmserve.server.apis.llamatik import convert
from llmserve.server.apis.llamatik.contents import DONE, NOT_LOCAL, get, post, send_ok
from llmserve.server.apis.llamatik.embeddings import EmbeddingRoutes
from llmserve.server.apis.llamatik.errors import DIALECT, PREFIX
from llmserve.server.apis.llamatik.generation import DEFAULT_SESSION, Generation
from llmserve.server.apis.llamatik.generation_routes import GENERATION_ROUTES
from llmserve.server.apis.llamatik.model_routes import ModelApi
from llmserve.server.apis.llamatik.mtp import Mtp
from llmserve.server.apis.llamatik.params import Params
from llmserve.server.apis.llamatik.schema import (
    EmptyRequest,
    InitRequest,
    MtpInitRequest,
    ParamsFields,
    ParamsRequest,
)
from llmserve.server.apis.llamatik.session_routes import SessionsApi
from llmserve.server.apis.llamatik.state import Choice, ChosenModel
from llmserve.server.services import Services
from llmserve.server.web.endpoint import Content, Route, json_of, routes_of
from llmserve.server.web.exchange import Exchange


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
        self._sessions = SessionsApi(services, self._model)
        self._of_model = ModelApi(services, self._model)
        self._embeddings = EmbeddingRoutes(services)
        self._reloading = asyncio.Lock()

    def routes(self) -> list[Route]:
        """Everything that the dialect serves."""
        generation = [
            Route(route.endpoint, functools.partial(self._generation.serve, route=route))
            for route in GENERATION_ROUTES
        ]
        return [*routes_of(self, self._sessions, self._of_model), *generation, *routes_of(self._embeddings)]

    @post(
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
        await send_ok(exchange, parsed.unknown)

    @post(
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
        await send_ok(exchange, parsed.unknown)

    @get(
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

    @post(
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
        await send_ok(exchange, parsed.unknown)

    @post(
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
        await send_ok(exchange, parsed.unknown)

    @post(
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
        await send_ok(exchange, parsed.unknown)

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
