"""How models write tool calls: the texts around the names and the arguments."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")

IdStyle: TypeAlias = Literal["openai", "short", "function"]
"""`call_` and nine letters and digits, these nine alone, or Kimi's `functions.NAME:INDEX`."""


@dataclass(frozen=True, slots=True)
class KindTexts:
    """The texts around a value of one JSON type, where they differ from those around a string."""

    kind: str
    after_name: str
    after_value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentTags:
    """The texts around each argument, if it stands apart from the others, with strings unquoted.

    `{key}` in a closing text stands for the argument's name.
    """

    before_name: str
    after_name: str
    after_value: str
    between: str = ""
    """What separates two arguments."""
    end: str
    """What follows the last argument: the beginning of what closes the call."""
    kinds: tuple[KindTexts, ...] = ()

    def around(self, kind: str | None, key: str) -> tuple[str, str]:
        """The texts before and after the value of an argument; `None` is any type but a string."""
        known = [texts for texts in self.kinds if texts.kind == kind] or self.kinds[:1]
        if kind == "string" or not known:
            return self.after_name, self.after_value.replace("{key}", key)
        return known[0].after_name, known[0].after_value.replace("{key}", key)

    @property
    def quote(self) -> str:
        """The quotation mark around strings, if they have one in which it may be escaped."""
        mark = self.after_name[-1:]
        return mark if mark in ("'", '"') and self.after_value == mark else ""

    def followers(self, after_value: str) -> tuple[str, ...]:
        """The characters of which one comes behind a value."""
        if after_value:
            return (after_value[0],)
        return tuple(dict.fromkeys((self.between + self.before_name)[:1] + self.end[:1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFormat:
    """The texts around the name and the arguments of a call.

    In these texts, `{id}` stands for the call's id, `{index}` for its number, and `{name}` for its name once
    more.
    """

    triggers: tuple[str, ...] = ()
    """Texts that begin calls in free text."""
    begins_with_brace: bool = False
    """Whether `{` as the first character that is not blank begins a call."""
    head: str
    """The text from the beginning of the first call to its name."""
    after_name: str
    """The text between name and arguments. Before JSON it does not end with a blank, which would be half of a
    token."""
    tags: ArgumentTags | None = None
    """`None`: the arguments are a JSON object."""
    after_arguments: str
    """The text that closes a call."""
    again: str | None = None
    """The text that begins another call; `None` if there can be only one."""
    next_head: str = ""
    """The text from the end of a call to the name of another."""
    first_index: int = 0
    """The number of a turn's first call."""
    id_style: IdStyle = "openai"
    """The ids that the template wants."""

    @property
    def follower(self) -> str:
        """The character after a name."""
        if self.after_name:
            return self.after_name[0]
        return (self.tags.before_name or self.tags.end)[0] if self.tags is not None else "{"

    def name_pattern(self, names: Iterable[str]) -> str:
        """A regular expression for one of the names.

        The first character after the name belongs to it, so that no name is taken for the beginning of
        another one.
        """
        return f"(?:{'|'.join(map(literal, names))}){literal(self.follower)}"


def literal(text: str) -> str:
    """A regular expression for this text alone."""
    return _SPECIAL.sub(r"\\\g<0>", text).replace("\n", "\\n")


PLAIN = ToolFormat(
    begins_with_brace=True,
    head='{"name": "',
    after_name='", "arguments":',
    after_arguments="}",
)
"""A JSON object, for models whose template shows no calls."""
