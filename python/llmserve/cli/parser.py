"""The parser of the command line. Only the module of the command that is used is imported."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from llmserve import __version__
from llmserve.cli import commands
from llmserve.cli.errors import UsageError
from llmserve.server.spelling import did_you_mean

DEFAULT_COMMAND = "serve"
_MODEL_SUFFIX = ".gguf"
_MIN_WIDTH = 40


class _Help(argparse.HelpFormatter):
    """Finds the width by itself: argparse would import `shutil` for it at every start."""

    def __init__(self, prog: str) -> None:
        try:
            width = os.get_terminal_size(1).columns
        except OSError:
            width = 80
        super().__init__(prog, width=max(width, _MIN_WIDTH) - 2)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """An option's names with its value once, as in Python 3.13, and not after each name."""
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"


class _Commands(_Help):
    """Gives each command one line: argparse counts their names without their indentation."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog)
        self._action_max_length = max(map(len, commands.NAMES)) + 2 * self._indent_increment


class Parser(argparse.ArgumentParser):
    """A parser whose errors are `UsageError`.

    Options are not shortened: `--api-key` is looked for by its full name (`hidden_key`).
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **{"formatter_class": _Help, "allow_abbrev": False, **named})

    def error(self, message: str) -> NoReturn:
        """Raises the error that argparse found."""
        raise UsageError(message, f"see {self.prog} --help")

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Also takes an optional argument that comes after options, which argparse does not."""
        found, extras = super().parse_known_args(args, namespace)
        for action in self._get_positional_actions():
            is_missing = action.nargs == "?" and getattr(found, action.dest, None) is action.default
            if is_missing and extras and not extras[0].startswith("-"):
                setattr(found, action.dest, extras.pop(0))
        return found, extras

    def refuse_extras(self, extras: Sequence[str]) -> None:
        """Raises an error if something was given that the parser does not know."""
        for word in extras:
            if word.startswith("-"):
                option = word.partition("=")[0]
                hyphens = "--" if option.startswith("--") else "-"
                known = [name for name in self._option_string_actions if name.startswith(hyphens)]
                hint = did_you_mean(option, known)
                raise UsageError(f"unknown option {option}", hint or f"see {self.prog} --help")
        if extras:
            raise UsageError(f"unexpected argument {extras[0]!r}", f"see {self.prog} --help")


def parse(argv: Sequence[str], given: argparse.Namespace | None = None) -> argparse.Namespace:
    """The arguments of a command; ``run`` among them is the command itself.

    Raises:
        UsageError: The command line is wrong.
    """
    words = with_command(argv)
    name = words[0] if words else ""
    if name not in commands.NAMES:
        _refuse_unknown(name)
        build_parser(commands.NAMES).parse_args(words or ["--help"])
    parser = build_parser([name])
    arguments, extras = parser.parse_known_args(words, given)
    subparser(parser, name).refuse_extras(extras)
    return arguments


def with_command(argv: Sequence[str]) -> list[str]:
    """The words with the command that they mean: ``llmserve x.gguf`` and ``llmserve -m x.gguf`` serve."""
    words = list(argv)
    match words:
        case ["help"]:
            return ["--help"]
        case ["help", name, *_]:
            return [name, "--help"]
        case ["version"]:
            return ["--version"]
        case [first, *_] if first in ("-h", "--help", "--version") or first in commands.NAMES:
            return words
        case [first, *_] if first.startswith("-") or first.lower().endswith(_MODEL_SUFFIX) or _exists(first):
            return [DEFAULT_COMMAND, *words]
    return words


def _exists(word: str) -> bool:
    return bool(word) and os.path.exists(word)  # noqa: PTH110 - names that no path can have are not there


def build_parser(names: Iterable[str] = commands.NAMES) -> Parser:
    """Builds the parser of these commands."""
    parser = Parser(
        prog="llmserve",
        description="Serves GGUF language models.",
        epilog="llmserve COMMAND --help describes a command. llmserve MODEL.gguf serves the model.",
        formatter_class=_Commands,
    )
    parser.add_argument("--version", action="version", version=f"llmserve {__version__}")
    actions = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", title="commands", parser_class=Parser
    )
    for name in names:
        command = commands.load(name)
        description = getattr(command, "DESCRIPTION", f"{command.HELP[0].upper()}{command.HELP[1:]}.")
        below = actions.add_parser(name, help=command.HELP, description=description)
        command.add_arguments(below)
        below.set_defaults(run=command.run)
    return parser


def subparser(parser: Parser, name: str) -> Parser:
    """The parser of one command."""
    (actions,) = (item for item in parser._actions if isinstance(item, argparse._SubParsersAction))
    found = actions.choices[name]
    assert isinstance(found, Parser)  # noqa: S101
    return found


def _refuse_unknown(name: str) -> None:
    if name and not name.startswith("-"):
        hint = did_you_mean(name, commands.NAMES)
        raise UsageError(f"unknown command {name!r}", hint or "see llmserve --help")
