"""Blocks of tokens: what they are called, and what has changed since routers were last told.

A block's hash depends on its tokens and on all blocks before it, so it stands for a whole beginning.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from llmserve.server.kv_events.events import ALL_CLEARED, Event, Medium, removed, stored
from llmserve.types import CachedTokens

BLOCK_SIZE = 16
"""Tokens of a block. llama.cpp knows no blocks; this is vLLM's size, which routers expect."""

_HASH_BYTES = 8


class ModelBlocks:
    """The blocks of a model that routers know of."""

    def __init__(self) -> None:
        self._in_slots = _MediumBlocks("GPU")
        self._parked = _MediumBlocks("CPU")

    def update(self, cached: CachedTokens) -> list[Event]:
        """What has changed."""
        return [*self._in_slots.update(cached.in_slots), *self._parked.update(cached.parked)]

    def clear(self) -> list[Event]:
        """The end of all blocks, with their names: some routers do not read `AllBlocksCleared`."""
        gone = [*self._in_slots.update(()), *self._parked.update(())]
        return [*gone, ALL_CLEARED] if gone else []


class _MediumBlocks:
    def __init__(self, medium: Medium) -> None:
        self._medium = medium
        self._known: set[int] = set()

    def update(self, sequences: Iterable[memoryview[int]]) -> list[Event]:
        chains = [(tokens, chain(tokens)) for tokens in sequences]
        current = {block for _, hashes in chains for block in hashes}
        gone = self._known - current
        events = [removed(sorted(gone), self._medium)] if gone else []
        self._known -= gone
        for tokens, hashes in chains:
            # Whoever knows a block knows those before it.
            first = next((index for index, block in enumerate(hashes) if block not in self._known), None)
            if first is not None:
                ids = tokens[first * BLOCK_SIZE : len(hashes) * BLOCK_SIZE].tolist()
                parent = hashes[first - 1] if first else None
                events.append(stored(hashes[first:], parent, ids, BLOCK_SIZE, self._medium))
                self._known.update(hashes[first:])
        return events


def chain(tokens: memoryview[int]) -> list[int]:
    """The hashes of the whole blocks of a sequence."""
    hashes = []
    parent = bytes(_HASH_BYTES)
    for start in range(0, len(tokens) - BLOCK_SIZE + 1, BLOCK_SIZE):
        block = blake2b(parent, digest_size=_HASH_BYTES)
        block.update(tokens[start : start + BLOCK_SIZE])
        parent = block.digest()
        hashes.append(int.from_bytes(parent, "big"))
    return hashes
