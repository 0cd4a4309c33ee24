"""Settings as options of commands."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import Any

from llmserve.server.settings import VARIABLES, Variable

_BY_NAME: Mapping[str, Variable] = {variable.name: variable for variable in VARIABLES}


def add_setting(parser: argparse._ActionsContainer, name: str) -> None:
    """Declares the option of a setting; its value is text, which `parse_settings` reads."""
    variable = _BY_NAME[name]
    default = f" Default: {variable.default}." if variable.default else ""
    text = f"{variable.doc}{default} [{variable.env}]".replace("%", "%%")
    if variable.kind.is_switch:
        parser.add_argument(*variable.options, action=argparse.BooleanOptionalAction, default=None, help=text)
        return
    choices = choices_of(name)
    parser.add_argument(
        *variable.options,
        dest=name,
        metavar="{" + ",".join(choices) + "}" if choices else variable.kind.metavar,
        help=text,
        action=_Joined if name == "host" else "store",
        # llama-server's -fa stands alone.
        **({"nargs": "?", "const": "true"} if name == "flash_attention" else {}),  # type: ignore[arg-type]
    )


class _Joined(argparse.Action):
    """An option that may be repeated: its values with commas between them."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        former = getattr(namespace, self.dest)
        setattr(namespace, self.dest, values if former is None else f"{former},{values}")


def choices_of(name: str) -> tuple[str, ...]:
    """The values that a setting may have, if they are few; none if there is no setting of that name."""
    return _BY_NAME[name].kind.choices if name in _BY_NAME else ()


def given_settings(arguments: argparse.Namespace, names: Iterable[str]) -> dict[str, str]:
    """The settings among the arguments, as the text of variables."""
    given = {name: getattr(arguments, name) for name in names}
    return {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in given.items()
        if value is not None
    }
