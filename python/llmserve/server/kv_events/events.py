"""The events, as arrays whose first element is their name: vLLM's encoding, which routers read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

Event: TypeAlias = tuple[object, ...]
Medium: TypeAlias = Literal["GPU", "CPU"]
"""Where cells are: those of a context count as the GPU's, whatever computes them; the others are parked."""


def stored(
    hashes: Sequence[int], parent: int | None, token_ids: Sequence[int], block_size: int, medium: Medium
) -> Event:
    """Blocks that follow one another are there; ``parent`` is the one before them."""
    lora_id = lora_name = None
    return ("BlockStored", hashes, parent, token_ids, block_size, lora_id, medium, lora_name)


def removed(hashes: Sequence[int], medium: Medium) -> Event:
    """Blocks are no longer there."""
    return ("BlockRemoved", hashes, medium)


ALL_CLEARED: Event = ("AllBlocksCleared",)
