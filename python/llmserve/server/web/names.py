"""Names that clients give to things: short, and plain enough for every log and header."""

from __future__ import annotations

import re
from dataclasses import dataclass

from llmserve.server.refusals import FieldError

_NUM_SHOWN = 32


@dataclass(frozen=True, slots=True)
class Names:
    """A kind of names, of ASCII letters, digits and ``marks``."""

    max_length: int
    marks: str = "._-"

    @property
    def schema(self) -> dict[str, str]:
        """As JSON Schema."""
        return {"type": "string", "pattern": f"^{self._pattern}$"}

    @property
    def _pattern(self) -> str:
        return f"[A-Za-z0-9{self.marks}]{{1,{self.max_length}}}"

    def has(self, text: str) -> bool:
        """Whether the text is such a name."""
        return re.fullmatch(self._pattern, text) is not None

    def check(self, text: str, name: str) -> str:
        """The text of the field ``name``, if it is such a name.

        Raises:
            FieldError: It is not.
        """
        if not self.has(text):
            reason = f"must be 1 to {self.max_length} of A-Z a-z 0-9 {' '.join(self.marks)}"
            raise FieldError(name, f"{reason}, got {text[:_NUM_SHOWN]!a}")
        return text
