"""What a protocol tells of a request, in the names of OpenTelemetry's conventions for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

AttributeValue: TypeAlias = str | int | Sequence[str]
Attributes: TypeAlias = Mapping[str, AttributeValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHead:
    """What is known when a request begins."""

    name: str
    attributes: Attributes
    headers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Among which the caller's trace is found; their names are lower case."""
    is_remote: bool = True
    """Whether it has come from a client; else it goes on after one that has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEnd:
    """What is known when it has ended."""

    attributes: Attributes
    error: str = ""
    """Why it failed through the server's fault; empty: it did not."""
