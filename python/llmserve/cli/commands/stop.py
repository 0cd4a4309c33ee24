"""``llmserve stop``: unloads a model of a running server, or ends the server."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
import urllib.parse

from llmserve.cli.client import add_server_arguments, client_of
from llmserve.cli.errors import CommandError
from llmserve.cli.run_file import server_process
from llmserve.server.addresses import is_loopback_name
from llmserve.server.settings import parse_settings

HELP = "unload a model of a running server, or end the server"
DESCRIPTION = (
    "With a model: the server frees it when its requests have ended; the model that the server was started "
    "with stays. Without one: the server on this machine ends as by SIGTERM, and running requests may finish "
    "first (LLMSERVE_GRACE_S)."
)

_POLL_S = 0.1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the model and the server."""
    parser.add_argument("model", nargs="?", metavar="MODEL", help="id of a loaded model (llmserve ps)")
    add_server_arguments(parser, default=" (default: this machine, port LLMSERVE_PORT)")


def run(arguments: argparse.Namespace) -> int:
    """Unloads, or ends the server and waits until it is gone."""
    client = client_of(arguments)
    if arguments.model is not None:
        client.post_json("/models/unload", {"model": arguments.model})
        sys.stdout.write(f"{arguments.model} is unloaded\n")
        return 0
    parsed = urllib.parse.urlsplit(client.url)
    if not is_loopback_name(parsed.hostname or ""):
        raise CommandError(f"{client.url} is not on this machine", "end it where it runs")
    cache_dir = parse_settings(os.environ).cache_dir
    port = parsed.port or (443 if parsed.scheme == "https" else 80)
    if (process := server_process(cache_dir, port)) is None:
        raise CommandError(
            f"no server on port {port} was started by llmserve serve with the cache folder {cache_dir}",
            "--url names another port; a server that was started otherwise is ended by who started it",
        )
    try:
        os.kill(process, signal.SIGTERM)
    except PermissionError:
        raise CommandError(f"the server on port {port}, process {process}, is another user's") from None
    except ProcessLookupError:
        pass
    while server_process(cache_dir, port) == process:
        time.sleep(_POLL_S)
    sys.stdout.write(f"the server on port {port} has ended\n")
    return 0
