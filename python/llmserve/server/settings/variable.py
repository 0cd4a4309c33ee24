"""A setting: one environment variable, and one option of the command line."""

from __future__ import annotations

from dataclasses import dataclass

from llmserve.server.settings.kinds import Kind


@dataclass(frozen=True, slots=True)
class Variable:
    """One setting. ``default`` is its text; empty: as ``doc`` says."""

    name: str
    kind: Kind
    default: str
    doc: str
    prefix: str = "LLMSERVE_"

    @property
    def env(self) -> str:
        """The environment variable."""
        return f"{self.prefix}{self.name.upper()}"

    @property
    def option(self) -> str:
        """The option of ``llmserve serve``."""
        return "--" + self.name.replace("_", "-")
