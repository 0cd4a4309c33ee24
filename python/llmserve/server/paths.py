"""Paths that clients send: where they start, what they may reach, and from whom they are accepted."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmserve.server.refusals import PathNotAllowedError, PathNotLocalError
from llmserve.server.trust.local import is_local

MAX_PATH_BYTES = 4096
"""The longest path that is accepted; Linux opens no longer ones. Links are followed on the event loop, with a
system call for each part."""


def shown(name: str | Path) -> str:
    """A name from the file system as Unicode text: bytes that are not UTF-8 become U+FFFD."""
    return os.fsencode(name).decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class AllowedFolder:
    """The folder of one kind of path, or none: then any path is accepted from local requests."""

    folder: Path | None
    variable: str
    """The variable that sets the folder, for messages."""
    follow: Callable[[str | os.PathLike[str]], str | os.PathLike[str]] = os.path.realpath
    """Follows the links of a path."""

    def resolve(self, text: str, field: str) -> Path:
        """The path of what a client named in a field, links followed.

        Relative paths start at the folder or the working directory. The file need not exist.

        Raises:
            PathNotAllowedError: The text cannot be a path (NUL, too long, not Unicode).
        """
        try:
            # The first comparison spares long texts the encoding.
            if "\0" in text or len(text) > MAX_PATH_BYTES or len(os.fsencode(text)) > MAX_PATH_BYTES:
                raise PathNotAllowedError(field)
            return Path(self.follow((self.folder or Path.cwd()) / text))
        except (OSError, ValueError):
            raise PathNotAllowedError(field) from None

    def admit(self, text: str, field: str, scope: Mapping[str, Any]) -> Path:
        """The real path of what a client named in a field, if the request with this ASGI scope may use it.

        Raises:
            PathNotAllowedError: The path resolves, links followed, outside the folder.
            PathNotLocalError: No folder is set and the request is not local.
        """
        if self.folder is None and not is_local(scope):
            raise PathNotLocalError(self.variable)
        path = self.resolve(text, field)
        if self.folder is not None and not _is_in(path, self.folder):
            raise PathNotAllowedError(field)
        return path

    def name_for(self, path: Path, scope: Mapping[str, Any]) -> str | None:
        """How a client with this ASGI scope may name a real path: from the folder on, if it lies there, or
        else all of it for local requests.
        """
        if self.folder is not None and _is_in(path, self.folder):
            return shown(path.relative_to(os.path.realpath(self.folder)))
        return shown(path) if is_local(scope) else None


def _is_in(path: Path, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))
