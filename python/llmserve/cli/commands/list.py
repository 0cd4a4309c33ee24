"""``llmserve list``: the models on this machine."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from llmserve.cli.model_names import known_models
from llmserve.cli.output import print_json, print_table
from llmserve.server.model_header import HeaderError, read_header
from llmserve.server.settings import parse_settings
from llmserve.server.units import shown_bytes, shown_count

HELP = "list the models on this machine"
DESCRIPTION = (
    "Lists the models in the cache folder and in MODELS_DIR, by the names under which commands find them."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the format."""
    parser.add_argument("--json", action="store_true", help="print a JSON array")


def run(arguments: argparse.Namespace) -> int:
    """Prints a line for each model."""
    settings = parse_settings(os.environ)
    models = [_described(name, path) for name, path in sorted(known_models(settings).items())]
    if arguments.json:
        print_json(models)
    elif models:
        rows = [
            (
                model["name"],
                shown_bytes(model["size_bytes"]) if "size_bytes" in model else "?",
                model.get("quantization", "?"),
                shown_count(model["parameters"]) if "parameters" in model else "?",
                model.get("architecture", model.get("error", "")),
            )
            for model in models
        ]
        print_table(("NAME", "SIZE", "QUANT", "PARAMS", "ARCHITECTURE"), rows, right=(1, 3))
    else:
        folders = " and ".join(map(str, settings.model_folders))
        sys.stderr.write(f"there are no models in {folders}\nhint: llmserve pull downloads one\n")
    return 0


def _described(name: str, path: Path) -> dict[str, Any]:
    model: dict[str, Any] = {"name": name, "path": str(path)}
    try:
        header = read_header(path)
    except HeaderError as error:
        return {**model, "error": str(error).partition("\n")[0]}
    return {
        **model,
        "size_bytes": header.size_bytes,
        "quantization": header.quantization,
        "parameters": header.num_parameters,
        "architecture": header.architecture,
        "context_length": header.context_length,
    }
