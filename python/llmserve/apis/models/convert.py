"""Pure functions: a model of the catalogue and its state -> wire."""

from __future__ import annotations

from typing import Any

from llmserve.apis.models.schema import ModelDetails, ModelObject
from llmserve.errors import LoadError
from llmserve.http.schema import dump
from llmserve.registry import CatalogueEntry, EntryState

_GRAMMARS = ("json_schema", "regex", "ebnf")


def openai_model(entry: CatalogueEntry, created: int) -> dict[str, Any]:
    """An item of ``data``; ``created`` is in seconds since 1970."""
    return dump(ModelObject(id=entry.id, created=created))


def sie_model(entry: CatalogueEntry, state: EntryState) -> dict[str, Any]:
    """An item of ``models``."""
    context_length = entry.config.context_length
    if state.model is not None and state.model.engine is not None:
        context_length = state.model.engine.info.context_length
    details = ModelDetails(
        name=entry.id,
        loaded=state.name == "loaded",
        state=state.name,
        last_error=None if state.failure is None else _last_error(state.failure),
        context_length=context_length,
        max_sequence_length=context_length,
        max_new_tokens=entry.max_new_tokens,
        dims={},
        profiles={"default": {"is_default": True}},
        capabilities={"streaming": True, "grammar": _GRAMMARS, "tools": True},
    )
    return dump(details)


def whole_model(entry: CatalogueEntry, state: EntryState, created: int) -> dict[str, Any]:
    """One model: the fields of both shapes."""
    return {**sie_model(entry, state), **openai_model(entry, created)}


def _last_error(failure: LoadError) -> dict[str, Any]:
    # Not permanent: a request some seconds later tries again.
    return {"code": failure.reason.upper(), "message": str(failure), "attempts": 1, "permanent": False}
