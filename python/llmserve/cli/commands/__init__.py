"""The commands: a module each, with ``HELP``, ``add_arguments`` and ``run``."""

from __future__ import annotations

import argparse
import importlib
from typing import Protocol, cast

NAMES = (
    "serve",
    "run",
    "chat",
    "pull",
    "list",
    "show",
    "rm",
    "ps",
    "stop",
    "bench",
    "devices",
    "inspect",
    "completion",
)
"""In the order of `llmserve --help`. A command's module is imported when it is used or listed."""


class Command(Protocol):
    """What a command's module has. ``DESCRIPTION`` may be left out."""

    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declares the arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Runs the command; returns the exit status."""


def load(name: str) -> Command:
    """The command with a name."""
    return cast("Command", importlib.import_module(f"{__name__}.{name}"))
