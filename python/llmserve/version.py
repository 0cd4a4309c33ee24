"""The version of the installed package."""

from __future__ import annotations

from functools import cache
from importlib import metadata


@cache
def version() -> str:
    """As in the package's metadata; ``0+unknown`` in a tree that was never installed."""
    try:
        return metadata.version("llmserve")
    except metadata.PackageNotFoundError:
        return "0+unknown"
