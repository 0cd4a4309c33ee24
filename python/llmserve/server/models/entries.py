"""What the catalogue knows about a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llmserve.model_config import ModelConfig
from llmserve.server.settings import DraftSettings


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A model that clients can name, loaded or not."""

    id: str
    """``Org/Name``, or a plain name."""
    path: Path
    """The real path of the model's file; for a split model, of its first part."""
    config: ModelConfig
    """The options with which the model is loaded."""
    max_new_tokens: int | None = None
    """Maximum number of tokens that a request may ask for, if that is less than the context length."""
    drafting: DraftSettings = field(default_factory=DraftSettings)
    """How requests for the model draft."""
    default_sampling: Mapping[str, Any] = field(default_factory=dict)
    """How tokens are drawn where a request of the OpenAI API or Ollama's does not say."""
