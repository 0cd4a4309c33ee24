"""Tells routers which blocks of tokens have KV cells here, over ZMQ and in the form of vLLM's events.

The packages for that are imported only where it is switched on.
"""

from llmserve.server.kv_events.blocks import BLOCK_SIZE
from llmserve.server.kv_events.watch import KvEvents, KvEventsStartError

__all__ = ["BLOCK_SIZE", "KvEvents", "KvEventsStartError"]
