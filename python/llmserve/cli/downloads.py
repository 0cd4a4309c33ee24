"""Downloads models, with their progress on standard error."""

from __future__ import annotations

import sys
from pathlib import Path

from llmserve.server.download import DEFAULT_MODEL
from llmserve.server.download.progress import ProgressLine
from llmserve.server.settings import Settings


def fetch_default(settings: Settings) -> Path:
    """The default model's file, downloaded unless it is there.

    Raises:
        PullError: It could not be fetched.
    """
    # Imported late: a server with a model of its own needs none of it.
    from llmserve.server.download.pull import pull

    lines: dict[str, ProgressLine] = {}

    def report(phase: str, share: float) -> None:
        if phase not in lines:
            for line in lines.values():
                line.close()
            lines[phase] = ProgressLine(f"{phase} {DEFAULT_MODEL.title}", sys.stderr)
        lines[phase].show(share)

    try:
        return pull(DEFAULT_MODEL, settings.model_folders[0], report)
    finally:
        for line in lines.values():
            line.close()


def fetch_named(what: str, settings: Settings, *, sha256: str = "", revision: str = "main") -> Path:
    """The file of a model of Hugging Face or at a URL, downloaded unless it is there; of a split one, its
    first part.

    Raises:
        PullError: It could not be fetched.
    """
    from llmserve.server.download.sources import files_of
    from llmserve.server.download.transfer import fetch

    fetched = []
    for file in files_of(what, sha256=sha256, revision=revision):
        with ProgressLine(f"download {file.name}", sys.stderr) as line:
            fetched.append(fetch(file, settings.model_folders[0], line.show))
    return fetched[0]
