"""The ids of loaded models: the name of the file, which belongs to the model that was loaded from it last.

Earlier models of the file, loaded with other options, and files of the same name have a number after it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from llmserve.server.models.model import Model
from llmserve.server.paths import shown


def new_ids(models: Collection[Model], path: Path) -> tuple[str, str]:
    """The file's id, and the one that another model of the file has until it is loaded."""
    taken = {name for model in models for name in (model.id, model.file_id)}
    same = [model for model in models if model.path == path]
    file_id = same[0].file_id if same else _free(shown(path.stem), taken)
    has_owner = any(model.id == file_id for model in same)
    return file_id, _free(file_id, taken) if has_owner else file_id


def take_id(model: Model, models: Collection[Model], may_take: Callable[[Model], bool]) -> None:
    """Gives a newly loaded model the id of the last model of its file from which it ``may_take`` it."""
    others = [other for other in _others(model, models) if may_take(other)]
    if others:
        last = max(others, key=lambda other: (other.loaded_at, other.id == other.file_id))
        last.id, model.id = model.id, last.id


def pass_id_on(gone: Model, models: Collection[Model]) -> None:
    """Gives the id of a file's last model, once that has gone, to the one before."""
    heirs = [other for other in _others(gone, models) if other.id != other.file_id]
    if heirs:
        heir = max(heirs, key=lambda other: other.loaded_at)
        if gone.id == gone.file_id or gone.loaded_at > heir.loaded_at:
            heir.id = gone.id


def _others(model: Model, models: Collection[Model]) -> list[Model]:
    return [other for other in models if other is not model and other.path == model.path]


def _free(name: str, taken: Collection[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    return free
