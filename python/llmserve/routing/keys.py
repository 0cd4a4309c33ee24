"""What of a request decides where it runs: the session that it names, and the beginning of its prompt."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import orjson

SESSION_HEADER = "x-llmserve-session"
_SESSION = re.compile(r"[A-Za-z0-9._-]{1,128}")

BLOCK_BYTES = 64
"""How many bytes of a prompt count as one block, about 16 tokens."""
_MAX_BLOCKS = 2048
_HASH_BYTES = 8

# In the order in which chat templates write them. What does not change between turns comes first.
_PROMPT_FIELDS = ("model", "system", "instructions", "tools", "messages", "input", "prompt", "input_prefix")
# These routes compute each input by itself.
_WITHOUT_PREFIX = ("embed", "rerank", "score")


@dataclass(frozen=True, slots=True)
class RoutingKey:
    """``blocks`` are hashes of the prompt's beginning up to the end of each block: equal ones mean that
    everything before is equal, too.
    """

    session: str | None = None
    blocks: tuple[int, ...] = ()


def key_of(path: str, headers: Mapping[str, str], body: bytes) -> RoutingKey:
    """The key of an HTTP request. ``headers`` have names in lower case."""
    fields = _fields(body)
    session = _session(headers, fields)
    if any(word in path for word in _WITHOUT_PREFIX):
        return RoutingKey(session)
    prompt = b"".join(_prompt_parts(fields))
    return RoutingKey(session, blocks_of(prompt) if prompt else ())


def blocks_of(prompt: bytes) -> tuple[int, ...]:
    """The hashes of a prompt's whole blocks, each with all that comes before it."""
    so_far = blake2b(digest_size=_HASH_BYTES)
    hashes = []
    for end in range(BLOCK_BYTES, min(len(prompt), _MAX_BLOCKS * BLOCK_BYTES) + 1, BLOCK_BYTES):
        so_far.update(prompt[end - BLOCK_BYTES : end])
        hashes.append(int.from_bytes(so_far.digest()))
    return tuple(hashes)


def _fields(body: bytes) -> Mapping[str, Any]:
    try:
        value = orjson.loads(body) if body else None
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _session(headers: Mapping[str, str], fields: Mapping[str, Any]) -> str | None:
    named = headers.get(SESSION_HEADER) or fields.get("sessionId")
    if isinstance(named, str):
        # A replica refuses other names.
        return named if _SESSION.fullmatch(named) else None
    slot = fields.get("id_slot")
    return f"slot-{slot}" if isinstance(slot, int) and slot >= 0 else None


def _prompt_parts(fields: Mapping[str, Any]) -> Iterator[bytes]:
    if not any(fields.get(name) for name in _PROMPT_FIELDS[1:]):
        return
    for name in _PROMPT_FIELDS:
        if value := fields.get(name):
            # A list loses its end, where the next turn goes on.
            yield orjson.dumps(value).removesuffix(b"]")
