"""Wire types of the catalogue's routes: OpenAI's fields, and those that SIE's clients read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from llmserve.server.web.field_kinds import unchecked
from llmserve.server.web.fields import Field

_LIST_OF_TEXTS = {"type": "array", "items": {"type": "string"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelObject:
    """A model as OpenAI describes it."""

    id: Annotated[str, Field("What requests name as their model.", example="Org/Name")]
    object: Annotated[str, Field("Always `model`.")] = "model"
    created: Annotated[int, Field("When its file changed last, in seconds since 1970; 0: unknown.")] = 0
    owned_by: Annotated[str, Field("Always `llmserve`.")] = "llmserve"
    options: Annotated[
        Any,
        Field(
            "The load options in which it differs from the server's settings.",
            kind=unchecked({"type": "object"}),
            example={"context_length": 8192},
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDetails:
    """A model as SIE describes it."""

    name: Annotated[str, Field("The id.", example="Org/Name")]
    loaded: Annotated[bool, Field("Whether it answers at once.")]
    state: Annotated[
        str,
        Field(
            "`available`: a request for it loads it.",
            kind=unchecked({"type": "string", "enum": ["available", "loading", "loaded", "failed"]}),
        ),
    ]
    last_error: Annotated[
        Any,
        Field(
            "Why it could not be loaded, where `state` is `failed`: `code`, `message`, `attempts`, "
            "`permanent`.",
            kind=unchecked({"type": ["object", "null"]}),
        ),
    ] = None
    context_length: Annotated[
        int | None,
        Field(
            "The most tokens that one sequence may hold; null where only loading will tell.",
            kind=unchecked({"type": ["integer", "null"]}),
        ),
    ] = None
    max_sequence_length: Annotated[
        int | None, Field("The same as `context_length`.", kind=unchecked({"type": ["integer", "null"]}))
    ] = None
    max_new_tokens: Annotated[
        int | None,
        Field(
            "The most tokens that one request may generate, where the catalogue limits them.",
            kind=unchecked({"type": ["integer", "null"]}),
        ),
    ] = None
    inputs: Annotated[Any, Field("Always `text`.", kind=unchecked(_LIST_OF_TEXTS))] = ("text",)
    outputs: Annotated[Any, Field("`text`; of embedding models `dense`.", kind=unchecked(_LIST_OF_TEXTS))] = (
        "text",
    )
    dims: Annotated[
        Any,
        Field(
            "Of embedding models that are loaded: `dense`, the size of their vectors. Else empty.",
            kind=unchecked({"type": "object"}),
        ),
    ] = None
    revision: Annotated[Any, Field("Always null.", kind=unchecked({"type": "null"}))] = None
    profiles: Annotated[Any, Field("Always one, `default`.", kind=unchecked({"type": "object"}))] = None
    capabilities: Annotated[
        Any,
        Field("What generation can do: `streaming`, `grammar`, `tools`.", kind=unchecked({"type": "object"})),
    ] = None
    aliases: Annotated[Any, Field("Other names; none.", kind=unchecked(_LIST_OF_TEXTS))] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelList:
    """All models that requests can name, in both shapes."""

    object: Annotated[str, Field("Always `list`.")]
    data: Annotated[
        Any,
        Field(
            "For OpenAI's clients.",
            kind=unchecked({"type": "array", "items": {"$ref": "#/components/schemas/ModelObject"}}),
        ),
    ]
    models: Annotated[
        Any,
        Field(
            "For SIE's clients.",
            kind=unchecked({"type": "array", "items": {"$ref": "#/components/schemas/ModelDetails"}}),
        ),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnloadRequest:
    """Which model to give back."""

    model: Annotated[
        str,
        Field(
            "An id of `GET /v1/models`, or the path of a loaded model.", example="Org/Name", non_empty=True
        ),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnloadAnswer:
    """The model is not kept any more for those who load by path or by id."""

    success: Annotated[bool, Field("Always true.")] = True
