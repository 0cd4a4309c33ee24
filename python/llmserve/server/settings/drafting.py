"""What the operator chose for drafting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

DraftChoice: TypeAlias = Literal["off", "auto", "mtp", "prompt_lookup"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftSettings:
    """How requests for a model draft, of all dialects but Llamatik, which has routes of its own for it."""

    draft: DraftChoice = "off"
    """``mtp``: with the model's own head; ``auto``: so where it has one; ``prompt_lookup``: with what prompt
    and output repeat."""
    draft_len: int = 3
    """The most tokens of one draft."""
    draft_adaptive: bool = True
    """Whether drafts get shorter, or rest, where they do not pay."""
