"""``llmserve serve``: serves a model over HTTP."""

from __future__ import annotations

import argparse
import gc
import os
import socket
from collections.abc import Mapping, Sequence
from functools import partial

from llmserve.cli.certificate import check_certificate
from llmserve.cli.downloads import fetch_default, fetch_named
from llmserve.cli.errors import UsageError
from llmserve.cli.hidden_key import hide_api_key
from llmserve.cli.listening import take_address
from llmserve.cli.model_names import find_model
from llmserve.cli.run_file import run_file
from llmserve.cli.setting_options import add_setting, given_settings
from llmserve.cli.supervision import Supervisor
from llmserve.server.download import DEFAULT_MODEL
from llmserve.server.early_load import EarlyLoad
from llmserve.server.logs import ENGINE_LINES, configure_logging
from llmserve.server.settings import GROUPS, VARIABLES, Group, Settings, parse_settings

HELP = "serve a model over HTTP"
DESCRIPTION = (
    "Serves a model over HTTP. An option overrides the environment variable in brackets after its "
    "description, and both override the file that --config names. Numbers of bytes and of tokens may have a "
    "unit: 8k, 8G, 512MiB."
)

_TITLES: Mapping[Group, str] = {
    "model": "model",
    "memory": "memory and context",
    "computing": "computing",
    "rope": "context extension (RoPE)",
    "sampling": "sampling",
    "drafting": "speculative decoding",
    "server": "server",
    "security": "security",
    "limits": "limits",
    "grpc": "gRPC",
    "logging": "logging",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the model and every setting of the server, in groups."""
    parser.usage = "llmserve serve [MODEL] [options]"
    groups = {group: parser.add_argument_group(_TITLES[group]) for group in GROUPS}
    groups["model"].add_argument(
        "path",
        nargs="?",
        metavar="MODEL",
        help="GGUF file to load, or a part of the name of one that is in MODELS_DIR or was downloaded "
        "(default: LLMSERVE_MODEL, or else, if there is neither a catalogue nor a folder of models, "
        f"{DEFAULT_MODEL.title}, which is downloaded once)",
    )
    groups["model"].add_argument(
        "-hf",
        "--hf-repo",
        metavar="REPO",
        help="repository of Hugging Face to download the model from, as for llmserve pull: ORG/REPO, or "
        "ORG/REPO:Q4_K_M for a quantization",
    )
    groups["server"].add_argument(
        "--supervise",
        action="store_true",
        help="serve in a child process, and start another when it is killed, perhaps for want of memory; "
        "connections wait meanwhile",
    )
    for variable in VARIABLES:
        add_setting(groups[variable.group], variable.name)


def run(arguments: argparse.Namespace) -> int:
    """Serves until a signal ends the server."""
    overrides = _overrides(arguments)
    settings = parse_settings(os.environ, overrides)
    if (key := arguments.api_key) is not None:
        if not settings.api_key:
            raise UsageError("--api-key must contain at least one key, got none")
        if arguments.is_own_process:
            hide_api_key(key)
    check_certificate(settings)
    # The address comes first: a model may take minutes to load.
    sockets = take_address(settings)
    if (model := _model(settings, overrides.get("model"), arguments.hf_repo)) is not None:
        settings = parse_settings(os.environ, {**overrides, "model": model})
    if arguments.supervise:
        return Supervisor(partial(_serve, settings, sockets)).run()
    return _serve(settings, sockets)


def _serve(settings: Settings, sockets: Sequence[socket.socket]) -> int:
    configure_logging(settings.log_level, settings.log_format)
    ENGINE_LINES.hides_failed_loads = True
    early_load = EarlyLoad.of(settings)
    # Imported late: the load goes on meanwhile, and other commands work without the server's dependencies.
    # What is imported stays: collections would take 7 % of the time, and pass over it again and again later.
    gc.disable()
    from llmserve.server.serving import serve

    gc.freeze()
    gc.enable()
    with run_file(settings.cache_dir, sockets[0].getsockname()[1] if sockets else settings.port):
        return serve(settings, early_load, sockets)


def _model(settings: Settings, name: str | None, repository: str | None) -> str | None:
    """The path of the model to begin with, if there is one.

    ``name`` is the model as it was typed, and ``repository`` is one of Hugging Face.
    """
    if repository is not None:
        return str(fetch_named(f"hf:{repository}", settings))
    if settings.model is not None:
        return str(find_model(name or settings.model, settings))
    if settings.catalogue is None and settings.models_dir is None:
        return str(fetch_default(settings))
    return None


def _overrides(arguments: argparse.Namespace) -> dict[str, str]:
    """The options given on the command line, as the text of variables.

    Raises:
        UsageError: The model is given twice.
    """
    ways = {"": arguments.path, "--model ": arguments.model, "-hf ": arguments.hf_repo}
    models = [f"{option}{model}" for option, model in ways.items() if model is not None]
    if len(models) > 1:
        raise UsageError(f"the model is given twice: {models[0]} and {models[1]}")
    given = given_settings(arguments, (variable.name for variable in VARIABLES))
    return given if arguments.path is None else {**given, "model": arguments.path}
