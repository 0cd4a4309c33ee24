"""What the catalogue knows of a model."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from llmserve.model_config import ModelConfig
from llmserve.server.settings import DraftSettings


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A model that clients can name, loaded or not."""

    id: str
    """``Org/Name``, or a plain name."""
    path: Path
    """The real path of its file; of a split model, of the first part."""
    config: ModelConfig
    """The options with which it is loaded."""
    max_new_tokens: int | None = None
    """The most tokens that a request may ask for, where that is less than the context length."""
    drafting: DraftSettings = field(default_factory=DraftSettings)
    """How requests for it draft."""
