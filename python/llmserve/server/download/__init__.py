"""The default model: what it is and how it gets here."""

from llmserve.server.download.default import DEFAULT_MODEL, DefaultModel, PullError

__all__ = ["DEFAULT_MODEL", "DefaultModel", "PullError"]
