"""Keeps the API key out of the process's command line, which every user of the machine can read."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

OPTION = "--api-key"
VARIABLE = "LLMSERVE_API_KEY"


def hide_api_key(key: str) -> None:
    """Starts this program again, in the same process, with the key in its environment instead.

    Returns where the system cannot do that (Windows).
    """
    if os.name == "posix" and sys.executable and not getattr(sys, "frozen", False):
        command = without_api_key(sys.orig_argv)
        command[0] = sys.executable
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(sys.executable, command, {**os.environ, VARIABLE: key})  # noqa: S606


def without_api_key(command: Sequence[str]) -> list[str]:
    """The command without the option and its value."""
    kept: list[str] = []
    words = iter(command)
    for word in words:
        if word == OPTION:
            next(words, None)
        elif not word.startswith(f"{OPTION}="):
            kept.append(word)
    return kept
