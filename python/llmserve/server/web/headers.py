"""Small readers of requests, and writers of headers."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from starlette.types import Scope

_MAX_IGNORED = 32
_MAX_NAME_LENGTH = 64


def header(scope: Scope, name: bytes) -> str | None:
    """The first header of a name (lower case), or ``None``."""
    for key, value in scope["headers"]:
        if key == name:
            text: str = value.decode("latin-1")
            return text
    return None


def answer_headers(ignored: Iterable[str], *, seed: int | None = None) -> dict[str, str]:
    """The headers about a request: its fields without effect, if there are any, and the seed."""
    names = list(ignored)
    made = {} if seed is None else {"X-LLMServe-Seed": str(seed)}
    return {**made, "X-LLMServe-Ignored": ignored_header(names)} if names else made


def ignored_header(names: Iterable[str]) -> str:
    """The value of ``X-LLMServe-Ignored``: names without effect, separated by commas.

    The names come from clients: all but plain characters are percent-encoded, long names are cut, and beyond
    32 the rest is counted.
    """
    unique = list(dict.fromkeys(names))
    shown = [quote(name[:_MAX_NAME_LENGTH], safe=".-_[]$") for name in unique[:_MAX_IGNORED]]
    if (rest := len(unique) - len(shown)) > 0:
        shown.append(f"and {rest} more")
    return ", ".join(shown)
