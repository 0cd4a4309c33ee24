"""The API without an event loop: every call blocks its thread, and no other."""

from __future__ import annotations

from llmserve.embedder import SyncEmbedder
from llmserve.engine import SyncEngine
from llmserve.session import SyncSession
from llmserve.stream import SyncStream

__all__ = ["SyncEmbedder", "SyncEngine", "SyncSession", "SyncStream", "load"]

load = SyncEngine.load
