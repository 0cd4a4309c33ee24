"""``llmserve inspect``: shows a session file."""

from __future__ import annotations

import argparse

from llmserve.cli.errors import CommandError
from llmserve.errors import SessionError
from llmserve.inspection import inspect

HELP = "show the contents of a session file"
DESCRIPTION = "Shows the header of a session file and verifies its checksum. The model is not needed."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the file and the format."""
    parser.add_argument("file", metavar="FILE", help="file written by `session/save`")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Prints what the file contains."""
    try:
        return inspect(arguments.file, as_json=arguments.json)
    except SessionError as error:
        raise CommandError(f"{arguments.file}: {error}") from None
