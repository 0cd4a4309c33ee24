"""Paths and files that a request may not name, and models that cannot be put there."""

from __future__ import annotations

from llmserve.server.refusals.base import Refusal


class PathNotAllowedError(Refusal):
    """The path in ``field`` resolves outside the allowed folder, or is not a valid path."""

    code = "path_not_allowed"

    def __init__(self, field: str) -> None:
        super().__init__(f"{field} is not allowed")
        self.field = field


class PathNotLocalError(Refusal):
    """A request that is not local names a path, while no folder is set for such paths."""

    code = "path_not_local"

    def __init__(self, variable: str) -> None:
        super().__init__(f"paths are accepted from local requests only, unless the server sets {variable}")


class ModelsFolderError(Refusal):
    """The folder of models cannot be changed by this request."""

    code = "models_folder"


class DownloadError(Refusal):
    """A model cannot be downloaded."""

    code = "download_failed"
