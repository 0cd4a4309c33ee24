"""``llmserve serve``: serves a model over HTTP."""

from __future__ import annotations

import argparse
import gc
import os

from llmserve.cli.default_model import fetch_default
from llmserve.cli.hidden_key import hide_api_key
from llmserve.server.download import DEFAULT_MODEL
from llmserve.server.early_load import EarlyLoad
from llmserve.server.logs import configure_logging
from llmserve.server.settings import VARIABLES, SettingsError, Variable, parse_settings

HELP = "serve a model over HTTP"
DESCRIPTION = (
    "Serves a model over HTTP. An option overrides the environment variable in brackets after its "
    "description."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the model and every setting of the server."""
    parser.add_argument(
        "path",
        nargs="?",
        metavar="PATH",
        help=f"GGUF file to load (default: LLMSERVE_MODEL, or else, if there is no catalogue, "
        f"{DEFAULT_MODEL.title}, which is downloaded once)",
    )
    for variable in VARIABLES:
        if variable.name != "model":
            _add_option(parser, variable)


def run(arguments: argparse.Namespace) -> int:
    """Serves until a signal ends the server."""
    overrides = _overrides(arguments)
    settings = parse_settings(os.environ, overrides)
    if (key := arguments.api_key) is not None:
        if not settings.api_key:
            raise SettingsError("--api-key must contain at least one key, got none")
        if arguments.is_own_process:
            hide_api_key(key)
    if settings.model is None and settings.catalogue is None:
        overrides["model"] = str(fetch_default(settings))
        settings = parse_settings(os.environ, overrides)
    configure_logging(settings.log_level)
    early_load = EarlyLoad.of(settings)
    # Imported late: the load goes on meanwhile, and other commands work without the server's dependencies.
    # What is imported stays: collections would take 7 % of the time, and pass over it again and again later.
    gc.disable()
    from llmserve.server.serving import serve

    gc.freeze()
    gc.enable()
    return serve(settings, early_load)


def _add_option(parser: argparse.ArgumentParser, variable: Variable) -> None:
    default = f" Default: {variable.default}." if variable.default else ""
    text = f"{variable.doc}{default} [{variable.env}]".replace("%", "%%")
    if variable.kind.is_switch:
        parser.add_argument(variable.option, action=argparse.BooleanOptionalAction, default=None, help=text)
    else:
        metavar = (
            "{" + ",".join(variable.kind.choices) + "}" if variable.kind.choices else variable.kind.metavar
        )
        parser.add_argument(variable.option, metavar=metavar, help=text)


def _overrides(arguments: argparse.Namespace) -> dict[str, str]:
    """The options given on the command line, as the text of variables."""
    given = {variable.name: getattr(arguments, variable.name, None) for variable in VARIABLES}
    given["model"] = arguments.path
    return {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in given.items()
        if value is not None
    }
