"""What is stored of conversations: their items, and conversations under ids of their own."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Part:
    """Items of a conversation as JSON. All responses that continue it share them."""

    data: bytes


async def items_of(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """The items of all parts, read on another thread: a conversation may be long."""
    return await asyncio.to_thread(lambda: [item for part in parts for item in orjson.loads(part.data)])


@dataclass(slots=True, eq=False, kw_only=True)
class StoredConversation:
    """A conversation that clients make, and that responses continue."""

    owner: bytes
    """Whose it is: others do not see it."""
    id: str = field(default_factory=lambda: f"conv_{secrets.token_hex(12)}")
    created_at: int = field(default_factory=lambda: int(time.time()))
    metadata: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()

    @property
    def num_bytes(self) -> int:
        """What it takes beside its items."""
        return len(orjson.dumps(self.metadata))

    def object(self) -> dict[str, Any]:
        """The conversation without its items."""
        return {
            "id": self.id,
            "object": "conversation",
            "created_at": self.created_at,
            "metadata": self.metadata,
        }

    def abandon(self) -> None:
        """Nothing is to be ended."""
