"""``llmserve rm``: removes a downloaded model."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from llmserve.cli.errors import CommandError
from llmserve.cli.model_names import find_model
from llmserve.server.model_files import parts, remove_model
from llmserve.server.settings import parse_settings
from llmserve.server.units import shown_bytes

HELP = "remove a downloaded model"
DESCRIPTION = (
    "Removes a model from MODELS_DIR or the cache folder, after a question. Files elsewhere are not touched."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the model."""
    parser.add_argument("model", metavar="MODEL", help="a part of the model's name, or its path")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")


def run(arguments: argparse.Namespace) -> int:
    """Removes the files of the model, and its folder if nothing else is in it."""
    settings = parse_settings(os.environ)
    path = find_model(arguments.model, settings).absolute()
    # A link in the cache is removed itself, wherever it leads.
    folder = path.parent.resolve()
    known = [known.resolve() for known in settings.model_folders]
    if not any(map(folder.is_relative_to, known)):
        raise CommandError(f"{path} is not in {' or '.join(map(str, known))}", "remove it by yourself")
    files = [file for file in parts(path) if file.is_symlink() or file.exists()]
    if not arguments.yes and not _confirmed(path, files):
        sys.stderr.write("nothing was removed\n")
        return 1
    try:
        remove_model(path, settings.model_folders)
    except OSError as error:
        raise CommandError(f"{path} cannot be removed: {error.strerror or error}") from None
    sys.stdout.write(f"removed {path}\n")
    return 0


def _confirmed(path: Path, files: list[Path]) -> bool:
    if not sys.stdin.isatty():
        raise CommandError(f"{path} is not removed without a question", "--yes removes it")
    size = shown_bytes(sum(file.stat().st_size for file in files if file.exists()))
    sys.stderr.write(f"remove {path} ({size})? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
