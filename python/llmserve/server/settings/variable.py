"""A setting: one environment variable, one option of the command line, one key of the file of settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from llmserve.server.settings.kinds import Kind

Group: TypeAlias = Literal[
    "model",
    "memory",
    "computing",
    "rope",
    "sampling",
    "drafting",
    "server",
    "security",
    "limits",
    "grpc",
    "logging",
]
"""What settings are about: the help has a section for each, and the file of settings may have a table."""

GROUPS: tuple[Group, ...] = get_args(Group)


@dataclass(frozen=True, slots=True)
class Variable:
    """One setting. ``default`` is its text; empty: as ``doc`` says."""

    name: str
    kind: Kind
    default: str
    doc: str
    group: Group
    prefix: str = "LLMSERVE_"
    aliases: tuple[str, ...] = ()
    """Other names of the option, as llama-server has them."""

    @property
    def env(self) -> str:
        """The environment variable."""
        return f"{self.prefix}{self.name.upper()}"

    @property
    def option(self) -> str:
        """The option of ``llmserve serve``."""
        return "--" + self.name.replace("_", "-")

    @property
    def options(self) -> tuple[str, ...]:
        """The option and its other names, short ones first."""
        return (*sorted(self.aliases, key=len), self.option)
