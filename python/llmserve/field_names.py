"""Keyword arguments that are fields of a dataclass: a misspelt one is an error that names the closest."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

__all__ = ["check_names"]


def check_names(what: str, names: Iterable[str], of: type[Any]) -> None:
    """Raise `TypeError` for a name that is not a field; `what` says what the fields are."""
    known = [field.name for field in fields(of)]
    for name in names:
        if name not in known:
            raise TypeError(_unknown(what, name, known))


def _unknown(what: str, name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=3)
    names = ", ".join(f"`{n}`" for n in close or known)
    return f"`{name}` is not a {what}; {'the closest are' if close else 'there are'} {names}"
