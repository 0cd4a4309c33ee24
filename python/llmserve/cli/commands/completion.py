"""``llmserve completion``: lets a shell complete commands and options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from llmserve.cli.setting_options import choices_of

HELP = "print completions for bash, zsh or fish"
DESCRIPTION = (
    'Prints a script for a shell. bash: eval "$(llmserve completion bash)" in ~/.bashrc. zsh: the same in '
    "~/.zshrc, after compinit. fish: llmserve completion fish > ~/.config/fish/completions/llmserve.fish."
)


@dataclass(frozen=True, slots=True)
class _Option:
    names: tuple[str, ...]
    help: str
    takes_value: bool
    choices: tuple[str, ...]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the shell."""
    parser.add_argument("shell", choices=sorted(_SCRIPTS), help="the shell")


def run(arguments: argparse.Namespace) -> int:
    """Prints the script."""
    sys.stdout.write(_SCRIPTS[arguments.shell](_commands()))
    return 0


@dataclass(frozen=True, slots=True)
class _Command:
    name: str
    help: str
    options: tuple[_Option, ...]
    words: tuple[str, ...]
    """What its arguments may be, if they are not files."""


def _commands() -> list[_Command]:
    # Imported late: this module is one of the commands.
    from llmserve.cli import commands
    from llmserve.cli.parser import build_parser, subparser

    parser = build_parser(commands.NAMES)
    return [
        _Command(
            name,
            commands.load(name).HELP,
            tuple(_options(subparser(parser, name))),
            tuple(
                word
                for action in subparser(parser, name)._get_positional_actions()
                for word in action.choices or ()
            ),
        )
        for name in commands.NAMES
    ]


def _options(parser: argparse.ArgumentParser) -> Iterator[_Option]:
    for action in parser._get_optional_actions():
        # A switch's `--no-` is as long again as what it is good for; descriptions are for one line.
        if action.help != argparse.SUPPRESS:
            text = (action.help or "").partition(". ")[0].replace("%%", "%").replace("\n", " ")
            takes_value = action.nargs != 0
            choices = tuple(map(str, action.choices or choices_of(action.dest)))
            yield _Option(tuple(action.option_strings), text, takes_value, choices)


def _bash(commands: list[_Command]) -> str:
    cases = "\n".join(
        f'        {command.name}) options="{" ".join(_names(command))}"; words="{" ".join(command.words)}" ;;'
        for command in commands
    )
    values = "\n".join(
        f'        "{command.name} {name}") words="{" ".join(option.choices)}" ;;'
        for command in commands
        for option in command.options
        if option.choices
        for name in option.names
    )
    names = " ".join(command.name for command in commands)
    return f"""\
_llmserve() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}"
    local command="${{COMP_WORDS[1]}}" options="" words=""
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{names} --help --version" -- "$current")
                   $(compgen -f -X '!*.gguf' -- "$current"))
        return
    fi
    case "$command $previous" in
{values}
    esac
    if [ -n "$words" ]; then
        COMPREPLY=($(compgen -W "$words" -- "$current"))
        return
    fi
    case "$command" in
{cases}
    esac
    if [[ "$current" == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$current"))
    elif [ -n "$words" ]; then
        COMPREPLY=($(compgen -W "$words" -- "$current"))
    else
        COMPREPLY=($(compgen -f -- "$current"))
    fi
}}
complete -o filenames -F _llmserve llmserve
"""


def _zsh(commands: list[_Command]) -> str:
    described = "\n".join(f"        {_quoted(f'{command.name}:{command.help}')}" for command in commands)
    cases = "\n".join(
        f"            {command.name}) _arguments {' '.join(_zsh_options(command))} ;;" for command in commands
    )
    return f"""\
#compdef llmserve
_llmserve() {{
    local -a commands=(
{described}
    )
    local line state
    _arguments '1: :->command' '*:: :->arguments'
    case $state in
        command) _describe command commands; _files -g '*.gguf' ;;
        arguments)
            case $line[1] in
{cases}
            esac ;;
    esac
}}
compdef _llmserve llmserve
"""


def _zsh_options(command: _Command) -> Iterator[str]:
    for option in command.options:
        text = option.help.replace("[", "(").replace("]", ")").replace(":", " ")
        for name in option.names:
            value = f": :({' '.join(option.choices)})" if option.choices else ": :_files"
            yield _quoted(f"{name}[{text}]{value if option.takes_value else ''}")
    yield _quoted(f"*: :({' '.join(command.words)})" if command.words else "*: :_files")


def _fish(commands: list[_Command]) -> str:
    lines = [
        "complete -c llmserve -n __fish_use_subcommand -l help",
        "complete -c llmserve -n __fish_use_subcommand -l version",
    ]
    for command in commands:
        lines.append(
            f"complete -c llmserve -n __fish_use_subcommand -a {command.name} -d {_fish_quoted(command.help)}"
        )
        condition = f"complete -c llmserve -n '__fish_seen_subcommand_from {command.name}'"
        lines += [f"{condition} -a {_fish_quoted(' '.join(command.words))}"] if command.words else []
        for option in command.options:
            # `-np` is an option of one hyphen and two letters: fish calls it old.
            names = " ".join(
                f"-l {name[2:]}" if name.startswith("--") else f"-{'s' if len(name) == 2 else 'o'} {name[1:]}"
                for name in option.names
            )
            value = " -r" if option.takes_value else ""
            choices = f" -a {_fish_quoted(' '.join(option.choices))}" if option.choices else ""
            lines.append(f"{condition} {names}{value}{choices} -d {_fish_quoted(option.help)}")
    return "\n".join(lines) + "\n"


def _names(command: _Command) -> Iterator[str]:
    for option in command.options:
        yield from option.names


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_SCRIPTS: Mapping[str, Callable[[list[_Command]], str]] = {"bash": _bash, "fish": _fish, "zsh": _zsh}
