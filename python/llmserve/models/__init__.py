"""The default model: what it is and how it gets here."""

from llmserve.models.default import DEFAULT_MODEL, DefaultModel
from llmserve.models.pull import PullError, pull

__all__ = ["DEFAULT_MODEL", "DefaultModel", "PullError", "pull"]
