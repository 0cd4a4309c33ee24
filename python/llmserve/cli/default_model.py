"""Fetches the default model, with its progress on standard error."""

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
        return pull(DEFAULT_MODEL, settings.cache_dir, report)
    finally:
        for line in lines.values():
            line.close()
