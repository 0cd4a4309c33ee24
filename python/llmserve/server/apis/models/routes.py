"""Routes of the catalogue."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from dataclasses import replace

from llmserve.server.apis.models import convert
from llmserve.server.apis.models.schema import (
    ModelDetails,
    ModelList,
    ModelObject,
    UnloadAnswer,
    UnloadRequest,
)
from llmserve.server.error_shapes.anthropic import ANTHROPIC
from llmserve.server.error_shapes.openai import OPENAI
from llmserve.server.models import CatalogueEntry, Model, release
from llmserve.server.refusals import PathNotAllowedError, UnknownModelError
from llmserve.server.services import Services
from llmserve.server.web.endpoint import Content, Endpoint, Route, json_of, routes_of
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.fields import dump
from llmserve.server.web.headers import answer_headers
from llmserve.server.web.parameters import Parameter, as_it_is, in_path, integer_in_query

_MODEL_ID = in_path("model_id", "The id, such as `Org/Name`; `Org__Name` and `Org%2FName` are the same.")

_VERSION: Parameter[str, None] = Parameter(
    name="anthropic-version",
    place="header",
    doc="Any version: the answer is in the shape of Anthropic's API.",
    read=as_it_is,
    default=None,
)

_LIMIT = integer_in_query("limit", 1, 1000, 1000, "With `anthropic-version`: the most models of a page.")


def _id_in_query(name: str, doc: str) -> Parameter[str, None]:
    return Parameter(name=name, place="query", doc=doc, read=as_it_is, default=None)


_AFTER = _id_in_query("after_id", "With `anthropic-version`: the page begins after this model.")
_BEFORE = _id_in_query("before_id", "With `anthropic-version`: the page ends before this model.")

_BY_HEADER = (_VERSION.name, ANTHROPIC)

_LIST = Endpoint(
    path="/v1/models",
    method="GET",
    dialect=OPENAI,
    dialect_by_header=_BY_HEADER,
    operation_id="listModels",
    summary="Models that requests can name",
    description=(
        "The model that the server was started with, those of the catalogue's file or of `MODELS_DIR`, "
        "and those that were loaded by path. `data` is what OpenAI's clients read, `models` what SIE's "
        "read. Nothing is loaded by asking."
    ),
    responses={200: Content("The models.", json_of(ModelList))},
    errors={400: "A parameter of the page is wrong."},
    parameters=[_VERSION, _LIMIT, _AFTER, _BEFORE],
)


def routes(services: Services) -> list[Route]:
    """All routes."""
    return routes_of(ModelsApi(services))


class ModelsApi:
    """The catalogue over the shared services."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @_LIST
    @replace(
        _LIST,
        path="/models",
        operation_id="listModelsWithoutVersion",
        summary="Models that requests can name, without /v1",
    )
    async def list_models(self, exchange: Exchange) -> None:
        """`GET /v1/models`; llama-server has it as `GET /models`."""
        entries = await self._services.catalogue.entries()
        times = await asyncio.to_thread(_changed_at, entries)
        state = self._services.on_demand.state
        scope = exchange.request.scope
        if _VERSION.of(scope) is not None:
            models = [
                convert.anthropic_model(entry, state(entry), created)
                for entry, created in zip(entries, times, strict=True)
            ]
            page = convert.anthropic_page(models, _LIMIT.of(scope), _AFTER.of(scope), _BEFORE.of(scope))
            await exchange.send_json(page)
            return
        kinds = await self._services.on_demand.kinds.of_all(entries)
        default = self._services.registry.default_config
        path_of = functools.partial(self._path, exchange)
        await exchange.send_json(
            {
                "object": "list",
                "data": [
                    convert.openai_model(entry, state(entry), created, default, path_of(entry))
                    for entry, created in zip(entries, times, strict=True)
                ],
                "models": [
                    convert.sie_model(entry, state(entry), kind, is_missing=not created)
                    for entry, kind, created in zip(entries, kinds, times, strict=True)
                ],
            }
        )

    @Endpoint(
        path="/v1/models/{model_id:path}",
        method="GET",
        dialect=OPENAI,
        dialect_by_header=_BY_HEADER,
        operation_id="readModel",
        summary="One model",
        description="The fields of both shapes in one object. Nothing is loaded by asking.",
        parameters=[_MODEL_ID, _VERSION],
        responses={200: Content("The model.", json_of({"allOf": [ModelObject, ModelDetails]}))},
        errors={404: "There is no such model."},
    )
    async def read_model(self, exchange: Exchange) -> None:
        """`GET /v1/models/ID`."""
        entry = await self._services.catalogue.find(_MODEL_ID.of(exchange.request.scope))
        (created,) = await asyncio.to_thread(_changed_at, (entry,))
        state = self._services.on_demand.state(entry)
        if _VERSION.of(exchange.request.scope) is not None:
            await exchange.send_json(convert.anthropic_model(entry, state, created))
            return
        kind = await self._services.on_demand.kinds.of(entry)
        await exchange.send_json(
            convert.whole_model(
                entry,
                state,
                kind,
                created,
                self._services.registry.default_config,
                self._path(exchange, entry),
            )
        )

    @Endpoint(
        path="/models/unload",
        method="POST",
        dialect=OPENAI,
        operation_id="unloadModel",
        summary="Release a model",
        description=(
            "Ends the use of a model that was loaded by `/models/load`, over gRPC, or for a request that "
            "named it. Its memory is free when the answer comes, unless requests still run, which end first. "
            "What the server's start or `/v1/generation/init` keeps stays loaded: a 409. A model may be "
            "released twice."
        ),
        body=UnloadRequest,
        responses={200: Content("The model is released.", json_of(UnloadAnswer))},
        errors={
            404: "There is no such model.",
            409: "The server's start or `/v1/generation/init` keeps the model.",
            503: "The model is being loaded.",
        },
    )
    async def unload_model(self, exchange: Exchange) -> None:
        """`POST /models/unload`, as llama-server's router has it."""
        parsed = await exchange.read(UnloadRequest)
        await release(self._services.registry, await self._named(parsed.value.model))
        await exchange.send_json(dump(UnloadAnswer()), headers=answer_headers(parsed.unknown))

    def _path(self, exchange: Exchange, entry: CatalogueEntry) -> str | None:
        return self._services.models_folder.name_for(entry.path, exchange.request.scope)

    async def _named(self, name: str) -> list[Model]:
        """The loaded models of an id (at most one) or of a path.

        Raises:
            UnknownModelError: The text is neither an id nor the path of a loaded or listed model.
        """
        registry = self._services.registry
        try:
            entry = await self._services.catalogue.find(name)
        except UnknownModelError as error:
            try:
                path = self._services.models_folder.resolve(name, "model")
            except PathNotAllowedError:
                raise error from None
            if found := [model for model in registry.models if model.path == path]:
                return found
            if any(entry.path == path for entry in await self._services.catalogue.entries()):
                return []
            raise
        model = registry.find(entry.path, entry.config)
        return [] if model is None else [model]


def _changed_at(entries: Sequence[CatalogueEntry]) -> list[int]:
    """When the models' files last changed; 0 if that is unknown."""
    times = []
    for entry in entries:
        try:
            times.append(int(entry.path.stat().st_mtime))
        except OSError:
            times.append(0)
    return times
