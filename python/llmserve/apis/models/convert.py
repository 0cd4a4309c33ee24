"""Pure functions: a model of the catalogue and its state -> wire."""

from __future__ import annotations

from typing import Any

from llmserve.apis.models.schema import ModelDetails, ModelObject
from llmserve.errors import LoadError
from llmserve.http.schema import dump
from llmserve.registry import CatalogueEntry, EntryState, ModelKind

_GENERATION = {"streaming": True, "grammar": ("json_schema", "regex", "ebnf"), "tools": True}
_EMBEDDING = {"streaming": False, "grammar": (), "tools": False}


def openai_model(entry: CatalogueEntry, created: int) -> dict[str, Any]:
    """An item of ``data``; ``created`` is in seconds since 1970."""
    return dump(ModelObject(id=entry.id, created=created))


def sie_model(entry: CatalogueEntry, state: EntryState, kind: ModelKind | None) -> dict[str, Any]:
    """An item of ``models``."""
    embeds = kind == "embedding"
    context_length = entry.config.context_length
    handle = state.model.handle if state.model is not None else None
    if handle is not None:
        context_length = handle.info.context_length
    details = ModelDetails(
        name=entry.id,
        loaded=state.name == "loaded",
        state=state.name,
        last_error=None if state.failure is None else _last_error(state.failure),
        context_length=context_length,
        max_sequence_length=context_length,
        max_new_tokens=entry.max_new_tokens,
        outputs=("dense",) if embeds else ("text",),
        dims={"dense": handle.info.embedding_length} if embeds and handle is not None else {},
        profiles={"default": {"is_default": True}},
        capabilities=_EMBEDDING if embeds else _GENERATION,
    )
    return dump(details)


def whole_model(
    entry: CatalogueEntry, state: EntryState, kind: ModelKind | None, created: int
) -> dict[str, Any]:
    """One model: the fields of both shapes."""
    return {**sie_model(entry, state, kind), **openai_model(entry, created)}


def _last_error(failure: LoadError) -> dict[str, Any]:
    # Not permanent: a request some seconds later tries again.
    return {"code": failure.reason.upper(), "message": str(failure), "attempts": 1, "permanent": False}
