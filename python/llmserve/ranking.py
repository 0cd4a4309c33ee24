"""Pairs of a query and a document, and their scores."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from llmserve.errors import InvalidParameterError

__all__ = ["PairTemplate", "Scores"]

_PLACE = re.compile(r"\{(query|document)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """How well documents fit their queries, in the order of the pairs."""

    values: tuple[float, ...]
    """A score for each pair; the larger, the better."""
    num_tokens: tuple[int, ...]
    """Number of tokens in each pair, including those that join it."""

    def __len__(self) -> int:
        """The number of pairs."""
        return len(self.values)

    @property
    def ranking(self) -> list[int]:
        """The positions of the pairs, best first."""
        return sorted(range(len(self.values)), key=lambda index: -self.values[index])

    @property
    def total_tokens(self) -> int:
        """Number of tokens in all pairs."""
        return sum(self.num_tokens)


class PairTemplate:
    """A model's own text around and between query and document, such as an instruction."""

    __slots__ = ("_marker", "_template")

    def __init__(self, template: str, control_tokens: Iterable[str]) -> None:
        # Importing it takes time that models without a template do not need.
        from llmserve.templates.marks import Marker

        self._template = template
        self._marker = Marker(control_tokens)

    def joined(self, query: str, document: str) -> str:
        """The text of a pair, in which marks keep the users' words from becoming control tokens."""
        texts = {"query": query, "document": document}
        for name, text in texts.items():
            if not isinstance(text, str):
                raise InvalidParameterError(f"must be a str, got {text!r:.80}", field=name)
        marked = {name: self._marker.text(text) for name, text in texts.items()}
        return _PLACE.sub(lambda place: marked[place[1]], self._template)
