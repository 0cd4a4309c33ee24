"""Files of models: which names they have, which lie in a folder, and where links lead."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path

_SUFFIX = ".gguf"
_PROJECTOR = "mmproj"

PART = re.compile(r"(?P<name>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL | re.IGNORECASE)
"""The name of a part of a split model."""

_MAX_LINKS = 40
"""As many as Linux follows."""

_MAX_PARTS = 1000


def parts(path: Path) -> list[Path]:
    """The files of a model: one, or all parts of a split one, whether they exist or not."""
    part = PART.fullmatch(path.name)
    if part is None:
        return [path]
    count = min(int(part["count"]), _MAX_PARTS)
    suffix = part.string[-len(_SUFFIX) :]
    return [
        path.with_name(f"{part['name']}-{number:05}-of-{part['count']}{suffix}")
        for number in range(1, count + 1)
    ]


def model_file(path: str | os.PathLike[str]) -> Path:
    """The path that stands for a model: a link is followed as long as it leads to a file called ``*.gguf``.

    A link to a file of another name, such as a blob of Hugging Face's cache, is the model's file itself: its
    name is the model's, and the other parts of a split model lie beside it.
    """
    found = _in_real_folder(Path(path))
    for _ in range(_MAX_LINKS):
        try:
            target = _in_real_folder(found.parent / found.readlink())
        except OSError:  # not a link
            break
        if not target.name.lower().endswith(_SUFFIX):
            break
        found = target
    return found


def _in_real_folder(path: Path) -> Path:
    real = path if path.name == ".." else path.parent
    return Path(os.path.realpath(real)) / ("" if real is path else path.name)


def remove_model(path: Path, folders: Collection[Path]) -> None:
    """Removes the files of a model, and its folder if nothing else is in it and it is none of ``folders``.

    A link is removed itself, wherever it leads.

    Raises:
        OSError: A file cannot be removed.
    """
    for file in parts(path):
        file.unlink(missing_ok=True)
    folder = path.parent.resolve()
    if folder not in [known.resolve() for known in folders] and not any(folder.iterdir()):
        folder.rmdir()


def is_later_part(name: str) -> bool:
    """Whether a file name is that of a part of a split model other than the first."""
    part = PART.fullmatch(name)
    return part is not None and int(part["number"]) != 1


def is_model(path: Path) -> bool:
    """Whether a path leads to a model's file, or to the first part of one, by its name.

    A link that leads nowhere counts, so that one can see what is wrong.
    """
    name = path.name.lower()
    is_named_so = name.endswith(_SUFFIX) and not name.startswith(_PROJECTOR) and not is_later_part(name)
    return is_named_so and (path.is_file() or (path.is_symlink() and not path.exists()))


def entries(folder: Path) -> tuple[list[Path], list[Path]]:
    """The models and the folders in a folder, by name, without hidden ones.

    Raises:
        OSError: The folder cannot be read.
    """
    paths = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    return [path for path in paths if is_model(path)], [path for path in paths if path.is_dir()]
