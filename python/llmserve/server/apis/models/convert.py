"""Pure functions: a model of the catalogue and its state -> wire."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from llmserve.errors import LoadError
from llmserve.model_config import LoraAdapter, ModelConfig
from llmserve.server.apis.models.schema import ModelDetails, ModelObject
from llmserve.server.error_shapes.sie import load_failure
from llmserve.server.models import CatalogueEntry, EntryState, ModelKind
from llmserve.server.paths import shown
from llmserve.server.refusals import MAX_SHOWN_ID, FieldError
from llmserve.server.web.fields import dump

_GENERATION = {"streaming": True, "grammar": ("json_schema", "regex", "ebnf"), "tools": True}
_MISSING = LoadError("the model file does not exist", reason="not_found")
_STATUS: Mapping[str, Mapping[str, Any]] = {
    "available": {"value": "unloaded"},
    "loading": {"value": "loading"},
    "loaded": {"value": "loaded"},
    "failed": {"value": "unloaded", "failed": True},
}
_EMBEDDING = {"streaming": False, "grammar": (), "tools": False}


def openai_model(
    entry: CatalogueEntry, state: EntryState, created: int, default: ModelConfig, path: str | None
) -> dict[str, Any]:
    """An item of ``data``; ``created`` is in seconds since 1970, and ``path`` is what the client may see."""
    shown = ModelObject(
        id=entry.id,
        created=created,
        options=_options(entry.config, default),
        aliases=() if path is None or state.name != "loaded" else (path,),
        status=_STATUS[state.name],
    )
    return dump(shown)


def sie_model(
    entry: CatalogueEntry, state: EntryState, kind: ModelKind | None, *, is_missing: bool
) -> dict[str, Any]:
    """An item of ``models``; ``is_missing``: its file cannot be found, as where a link leads nowhere."""
    failure = state.failure or (_MISSING if is_missing and state.model is None else None)
    embeds, ranks = kind == "embedding", kind == "reranking"
    context_length = _context_length(entry, state)
    handle = state.model.handle if state.model is not None else None
    details = ModelDetails(
        name=entry.id,
        loaded=state.name == "loaded",
        state=state.name,
        last_error=None if failure is None else _last_error(failure),
        context_length=context_length,
        max_sequence_length=context_length,
        max_new_tokens=entry.max_new_tokens,
        outputs=("dense",) if embeds else ("score",) if ranks else ("text",),
        dims={"dense": handle.info.embedding_length} if embeds and handle is not None else {},
        profiles={"default": {"is_default": True}},
        capabilities=_EMBEDDING if embeds or ranks else _GENERATION,
    )
    return dump(details)


def anthropic_model(entry: CatalogueEntry, state: EntryState, created: int) -> dict[str, Any]:
    """The model as Anthropic's clients read it."""
    context_length = _context_length(entry, state)
    return {
        "type": "model",
        "id": entry.id,
        "display_name": entry.id,
        "created_at": datetime.fromtimestamp(created, UTC).isoformat(),
        "lifecycle": "active",
        "max_input_tokens": context_length,
        "max_tokens": entry.max_new_tokens or context_length,
    }


def anthropic_page(
    models: Sequence[Mapping[str, Any]], limit: int, after_id: str | None, before_id: str | None
) -> dict[str, Any]:
    """A page of at most `limit` models: the first ones, those after one, or the last ones before one.

    Raises:
        FieldError: There is no such one, or both are given.
    """
    if after_id is not None and before_id is not None:
        raise FieldError("before_id", "cannot be used with after_id: choose one")
    places = {model["id"]: index for index, model in enumerate(models)}
    for name, wanted in (("after_id", after_id), ("before_id", before_id)):
        if wanted is not None and wanted not in places:
            raise FieldError(name, f"must be the id of a model, got {wanted[:MAX_SHOWN_ID]!a}")
    if before_id is not None:
        candidates = models[: places[before_id]]
        page = candidates[-limit:]
    else:
        candidates = models if after_id is None else models[places[after_id] + 1 :]
        page = candidates[:limit]
    ids = [model["id"] for model in page] or [None]
    return {"data": page, "has_more": len(page) < len(candidates), "first_id": ids[0], "last_id": ids[-1]}


def whole_model(
    entry: CatalogueEntry,
    state: EntryState,
    kind: ModelKind | None,
    created: int,
    default: ModelConfig,
    path: str | None,
) -> dict[str, Any]:
    """One model: the fields of both shapes."""
    details = sie_model(entry, state, kind, is_missing=not created)
    return {**details, **openai_model(entry, state, created, default, path)}


def _context_length(entry: CatalogueEntry, state: EntryState) -> int | None:
    handle = state.model.handle if state.model is not None else None
    return entry.config.context_length if handle is None else handle.info.context_length


def _options(config: ModelConfig, default: ModelConfig) -> dict[str, Any]:
    values = ((field.name, getattr(config, field.name)) for field in dataclasses.fields(config))
    return {name: _shown(value) for name, value in values if value != getattr(default, name)}


def _shown(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_shown(item) for item in value]
    if isinstance(value, LoraAdapter):  # the folder is the server's own business
        return {"name": shown(Path(value.path).name), "scale": value.scale}
    return value


def _last_error(failure: LoadError) -> dict[str, Any]:
    return {"code": failure.reason.upper(), "message": str(failure), **load_failure(failure)}
