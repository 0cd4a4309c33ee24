"""Where links to models lead."""

from __future__ import annotations

import os
from pathlib import Path

_SUFFIX = ".gguf"
_MAX_LINKS = 40
"""As many as Linux follows."""


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
