"""The operator's settings for drafting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

DraftChoice: TypeAlias = Literal["off", "auto", "mtp", "prompt_lookup"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftSettings:
    """How requests for a model draft, in every dialect but Llamatik, which has its own routes for that."""

    draft: DraftChoice = "off"
    """``mtp``: with the model's own head; ``auto``: the same, if the model has a head; ``prompt_lookup``:
    from repetitions in prompt and output."""
    draft_len: int = 3
    """Maximum number of tokens in one draft."""
    draft_adaptive: bool = True
    """Whether drafts are shortened or skipped when they do not pay off."""
