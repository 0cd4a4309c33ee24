"""What the catalogue's routes answer, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from llmserve.server.apis.models.schema import (
    ModelDetails,
    ModelList,
    ModelObject,
    ModelsError,
    UnloadAnswer,
    UnloadRequest,
)
from llmserve.server.web.endpoint import Content, Endpoint, Serve

RESPONSE_TYPES = (ModelDetails, ModelList, ModelObject, ModelsError, UnloadAnswer)
"""Classes that responses refer to."""


def _json(*classes: type) -> Mapping[str, Mapping[str, Any]]:
    references = [{"$ref": f"#/components/schemas/{cls.__name__}"} for cls in classes]
    return {"application/json": {"schema": references[0] if len(references) == 1 else {"allOf": references}}}


_UNAUTHORIZED = Content("The server wants an API key.", _json(ModelsError))


def list_endpoint(serve: Serve) -> Endpoint:
    """`GET /v1/models`."""
    return Endpoint(
        path="/v1/models",
        method="GET",
        serve=serve,
        operation_id="listModels",
        summary="Models that requests can name",
        description=(
            "The model that the server was started with, those of the catalogue's file or of `MODELS_DIR`, "
            "and those that were loaded by path. `data` is what OpenAI's clients read, `models` what SIE's "
            "read. Nothing is loaded by asking."
        ),
        responses={200: Content("The models.", _json(ModelList)), 401: _UNAUTHORIZED},
    )


def bare_list_endpoint(serve: Serve) -> Endpoint:
    """`GET /models`, as llama-server has it."""
    return replace(
        list_endpoint(serve),
        path="/models",
        operation_id="listModelsWithoutVersion",
        summary="Models that requests can name, without /v1",
    )


def read_endpoint(serve: Serve) -> Endpoint:
    """`GET /v1/models/ID`."""
    return Endpoint(
        path="/v1/models/{model_id:path}",
        method="GET",
        serve=serve,
        operation_id="readModel",
        summary="One model",
        description="The fields of both shapes in one object. Nothing is loaded by asking.",
        parameters={"model_id": "The id, such as `Org/Name`; `Org__Name` and `Org%2FName` are the same."},
        responses={
            200: Content("The model.", _json(ModelObject, ModelDetails)),
            401: _UNAUTHORIZED,
            404: Content("There is no such model.", _json(ModelsError)),
        },
    )


def unload_endpoint(serve: Serve) -> Endpoint:
    """`POST /models/unload`, as llama-server's router has it."""
    return Endpoint(
        path="/models/unload",
        method="POST",
        serve=serve,
        operation_id="unloadModel",
        summary="Give a model back",
        description=(
            "Ends the use of a model that was loaded by `/models/load`, over gRPC, or for a request that "
            "named it. Its memory is free when the answer comes, unless requests still run, which end first, "
            "or the server's start or `/v1/generation/init` keeps it. A model that is not loaded is no error."
        ),
        body=UnloadRequest,
        responses={
            200: Content("It is given back.", _json(UnloadAnswer)),
            400: Content("The body is malformed.", _json(ModelsError)),
            401: _UNAUTHORIZED,
            404: Content("There is no such model.", _json(ModelsError)),
            503: Content("It is being loaded.", _json(ModelsError)),
        },
    )
