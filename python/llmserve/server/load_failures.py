"""Why a model could not be loaded, for the one who started the program."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from llmserve.errors import LoadError

_HINTS: Mapping[str, str] = MappingProxyType(
    {
        "not_gguf": "llmserve loads GGUF files; at Hugging Face, they are in repositories called ...-GGUF",
        "unsupported_version": "convert the model again with a current llama.cpp",
        "truncated": "the download was not complete: get the file again",
        "damaged": "get the file again",
        "missing_part": "all parts of a split model must lie in one folder",
        "wrong_part": "name the first part of the model",
        "not_enough_memory": "lower --context-length and --max-sequences, or use a smaller model",
    }
)
"""Reason of a `LoadError` -> what to do."""


def described(error: Exception, path: Path | None) -> str:
    """The failure in a line, and perhaps a hint in another."""
    subject = f"cannot load {path}" if path is not None else "cannot load the model"
    hint = _HINTS.get(error.reason, "") if isinstance(error, LoadError) else ""
    return f"{subject}: {error}" + (f"\nhint: {hint}" if hint else "")
