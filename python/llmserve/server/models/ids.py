"""The ids of loaded models: the catalogue's, or the name of the file.

The name belongs to the model that was loaded from the file last. Earlier models of the file, loaded with
other options, and files of the same name have a number after it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TypeAlias

from llmserve.model_config import ModelConfig
from llmserve.server.models.model import Model
from llmserve.server.paths import shown

NameOf: TypeAlias = Callable[[Path, ModelConfig], str | None]
"""The catalogue's id of a file with load options, if there is one. It goes to no other options."""


def new_ids(models: Collection[Model], path: Path, config: ModelConfig, name_of: NameOf) -> tuple[str, str]:
    """The file's id, and the one that another model of the file has until it is loaded."""
    taken = {name for model in models for name in (model.id, model.file_id)}
    own = name_of(path, config)
    if own is not None and own not in taken:
        return own, own
    same = [model for model in models if model.path == path and not _is_named(model, name_of)]
    file_id = same[0].file_id if same else _free(shown(path.stem), taken)
    has_owner = any(model.id == file_id for model in same)
    return file_id, _free(file_id, taken) if has_owner else file_id


def take_id(model: Model, models: Collection[Model], name_of: NameOf) -> None:
    """Gives a newly loaded model the id of the last model of its file, unless one is the catalogue's."""
    others = _others(model, models, name_of)
    if others:
        last = max(others, key=lambda other: (other.loaded_at, other.id == other.file_id))
        last.id, model.id = model.id, last.id


def pass_id_on(gone: Model, models: Collection[Model], name_of: NameOf) -> None:
    """Gives the id of a file's last model, once that has gone, to the one before."""
    heirs = [other for other in _others(gone, models, name_of) if other.id != other.file_id]
    if heirs:
        heir = max(heirs, key=lambda other: other.loaded_at)
        if gone.id == gone.file_id or gone.loaded_at > heir.loaded_at:
            heir.id = gone.id


def _others(model: Model, models: Collection[Model], name_of: NameOf) -> list[Model]:
    if _is_named(model, name_of):
        return []
    same = [other for other in models if other is not model and other.path == model.path]
    return [other for other in same if not _is_named(other, name_of)]


def _is_named(model: Model, name_of: NameOf) -> bool:
    return name_of(model.path, model.config) is not None


def _free(name: str, taken: Collection[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    return free
