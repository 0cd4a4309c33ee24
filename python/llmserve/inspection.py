"""Shows a session file without loading its model."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from datetime import UTC, datetime

from llmserve import _core
from llmserve.types import SessionInfo

__all__ = ["describe", "inspect", "inspect_session"]


def inspect_session(path: str | os.PathLike[str]) -> SessionInfo:
    """Read a session file's header and verify its checksum, which takes reading the whole file.

    Raises `SessionError` if the file is not a complete session file.
    """
    return SessionInfo(**_core.inspect_session(path))


def inspect(path: str, *, as_json: bool) -> int:
    """Prints the contents of a session file; returns the exit status."""
    info = inspect_session(path)
    text = json.dumps(dataclasses.asdict(info), indent=2) if as_json else describe(info)
    sys.stdout.write(f"{text}\n")
    return 0


def describe(info: SessionInfo) -> str:
    """The lines that `llmserve inspect` shows."""
    state = "none"
    if info.num_state_tokens:
        state = f"{info.num_state_tokens} tokens, {info.state_bytes} bytes ({info.state_layout})"
    lines = {
        "format": f"version {info.version}, {info.file_bytes} bytes, checksum correct",
        "written": f"{_time(info.created_s)} by {info.writer}",
        "model": f"{info.description} ({info.architecture})",
        "fingerprint": info.fingerprint,
        "tokens": str(info.num_tokens),
        "templated": "yes" if info.is_templated else "no",
        "KV state": state,
    }
    return "\n".join(f"{name + ':':<13}{value}" for name, value in lines.items())


def _time(seconds: int) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, OSError, ValueError):
        # The checksum shows that the value was written like this, not that it makes sense.
        return f"{seconds} s after 1970"
