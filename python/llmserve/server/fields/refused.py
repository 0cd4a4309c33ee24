"""Fields of other servers that would change the answer, where a route does not honour them.

A route refuses all of them by name, in any spelling and on every level of its body that is its own, except
with a value that changes nothing. Fields that are not known at all have no effect on the text.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from llmserve.server.fields.foreign import FOREIGN, Refused
from llmserve.server.fields.table import camel, snake
from llmserve.server.refusals import FieldError
from llmserve.server.web.schema import shown


@dataclass(frozen=True, slots=True)
class Refusals:
    """What a JSON object says to the fields that it does not have."""

    own: Mapping[str, Refused] = field(default_factory=dict)
    """Where its words differ from those for all."""
    known: Mapping[str, Refused] = field(default_factory=lambda: FOREIGN)
    otherwise: Refused | None = None
    """What it says to fields that nobody knows; `None`: they have no effect."""

    def of(self, name: str, fields: Collection[str]) -> Refused | None:
        """Why a field is refused, given those that the object has; `None` if it has no effect."""
        plain = snake(name)
        for spelling in (plain, camel(plain)):
            if spelling in fields:
                return Refused(f"write {spelling}")
        return self.own.get(plain) or self.known.get(plain) or self.otherwise

    def takes(self, name: str, value: Any, place: str, fields: Collection[str]) -> bool:
        """Whether a field that the object does not have is known, and its value changes nothing.

        Raises:
            FieldError: The value would change the answer.
        """
        if (known := self.of(name, fields)) is None:
            return False
        if _is_neutral(value, known):
            return True
        if known.neutral:
            raise FieldError(place, f"must be {values(known)}, got {shown(value)}: {known.reason}")
        raise FieldError(place, f"is not supported: {known.reason}")


def values(known: Refused) -> str:
    """The values that are not refused, in words."""
    return " or ".join(json.dumps(value) for value in known.neutral)


def _is_neutral(value: Any, known: Refused) -> bool:
    if value is None or any(_is_same(value, neutral) for neutral in known.neutral):
        return True
    return known.may_be_empty and value in ("", [], {})


def _is_same(value: Any, neutral: Any) -> bool:
    return isinstance(value, bool) == isinstance(neutral, bool) and value == neutral


MISPLACED = Refusals(known=dict.fromkeys(FOREIGN, Refused("it belongs to the top level of the body")))
"""For objects inside a body that have nothing to do with them."""
