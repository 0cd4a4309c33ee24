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
    created: Annotated[int, Field("When the file last changed, in seconds since 1970; 0 if unknown.")] = 0
    owned_by: Annotated[str, Field("Always `llmserve`.")] = "llmserve"
    options: Annotated[
        Any,
        Field(
            "The load options in which the model differs from the server's settings.",
            kind=unchecked({"type": "object"}),
            example={"context_length": 8192},
        ),
    ] = None
    aliases: Annotated[
        Any,
        Field(
            "Other names: of a loaded model its path, from `MODELS_DIR` on if it lies there, or else for "
            "local requests.",
            kind=unchecked(_LIST_OF_TEXTS),
        ),
    ] = ()
    status: Annotated[
        Any,
        Field(
            "llama-server's: `value` is `unloaded`, `loading` or `loaded`; after a load that failed there is "
            "`failed`.",
            kind=unchecked({"type": "object"}),
            example={"value": "loaded"},
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDetails:
    """A model as SIE describes it."""

    name: Annotated[str, Field("The id.", example="Org/Name")]
    loaded: Annotated[bool, Field("Whether the model is loaded and answers at once.")]
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
            "Why the model could not be loaded, if `state` is `failed`: `code`, `message`, "
            "`error_class`, `attempts`, `permanent`.",
            kind=unchecked({"type": ["object", "null"]}),
        ),
    ] = None
    context_length: Annotated[
        int | None,
        Field(
            "Maximum number of tokens in one sequence; null if that is known only after loading.",
            kind=unchecked({"type": ["integer", "null"]}),
        ),
    ] = None
    max_sequence_length: Annotated[
        int | None, Field("The same as `context_length`.", kind=unchecked({"type": ["integer", "null"]}))
    ] = None
    max_new_tokens: Annotated[
        int | None,
        Field(
            "Maximum number of tokens that one request may generate, if the catalogue limits it.",
            kind=unchecked({"type": ["integer", "null"]}),
        ),
    ] = None
    inputs: Annotated[Any, Field("Always `text`.", kind=unchecked(_LIST_OF_TEXTS))] = ("text",)
    outputs: Annotated[
        Any,
        Field(
            "`text`, `dense` for embedding models, or `score` for models that rank.",
            kind=unchecked(_LIST_OF_TEXTS),
        ),
    ] = ("text",)
    dims: Annotated[
        Any,
        Field(
            "For loaded embedding models `dense`, the size of their vectors; otherwise empty.",
            kind=unchecked({"type": "object"}),
        ),
    ] = None
    revision: Annotated[Any, Field("Always null.", kind=unchecked({"type": "null"}))] = None
    profiles: Annotated[
        Any, Field("There is always one profile, `default`.", kind=unchecked({"type": "object"}))
    ] = None
    capabilities: Annotated[
        Any,
        Field("What generation can do: `streaming`, `grammar`, `tools`.", kind=unchecked({"type": "object"})),
    ] = None
    aliases: Annotated[Any, Field("Always empty.", kind=unchecked(_LIST_OF_TEXTS))] = ()


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
    """Which model to release."""

    model: Annotated[
        str,
        Field("An id of `GET /v1/models`, or a model's path.", example="Org/Name", non_empty=True),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnloadAnswer:
    """The model is no longer kept for those who load by path or by id."""

    success: Annotated[bool, Field("Always true.")] = True
