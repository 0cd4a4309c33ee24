"""``llmserve ps``: the models of a running server."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping
from typing import Any

from llmserve.cli.client import Client, add_server_arguments, client_of
from llmserve.cli.errors import CommandError
from llmserve.cli.output import print_json, print_table
from llmserve.server.units import shown_bytes

HELP = "list the models of a running server"
DESCRIPTION = (
    "Lists the models that a running server has loaded, with their memory and the number of requests that "
    "run and wait."
)

_GAUGES = {"running": "llmserve_requests_running", "waiting": "llmserve_requests_waiting"}
_SAMPLE = re.compile(r'(?P<name>\w+)\{model="(?P<model>(?:[^"\\]|\\.)*)"\} (?P<value>[0-9.e+]+)')
_ESCAPE = re.compile(r"\\(.)")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the server and the format."""
    add_server_arguments(parser, default=" (default: this machine, port LLMSERVE_PORT)")
    parser.add_argument("--json", action="store_true", help="print a JSON array")


def run(arguments: argparse.Namespace) -> int:
    """Prints a line for each loaded model."""
    client = client_of(arguments)
    models = client.get_json("/health").get("models") or []
    gauges = _gauges(client)
    for model in models:
        model.update({name: gauges.get((metric, model["id"])) for name, metric in _GAUGES.items()})
    if arguments.json:
        print_json(models)
    elif models:
        print_table(
            ("ID", "STATE", "BACKEND", "MEMORY", "RUNNING", "WAITING"),
            [_row(model) for model in models],
            right=(3, 4, 5),
        )
    else:
        sys.stderr.write(f"{client.url} has no model loaded\n")
    return 0


def _row(model: Mapping[str, Any]) -> tuple[str, ...]:
    memory = model.get("memory_bytes")
    counts = (model[name] for name in _GAUGES)
    return (
        model["id"],
        model["state"],
        model.get("backend", "-"),
        "-" if memory is None else shown_bytes(memory),
        *("-" if count is None else str(count) for count in counts),
    )


def _gauges(client: Client) -> dict[tuple[str, str], int]:
    """The values of gauges by metric and model; none if this client may not see them."""
    try:
        text = client.get_text("/metrics")
    except CommandError:
        return {}
    return {
        (found["name"], _ESCAPE.sub(r"\1", found["model"])): int(float(found["value"]))
        for found in map(_SAMPLE.fullmatch, text.splitlines())
        if found
    }
