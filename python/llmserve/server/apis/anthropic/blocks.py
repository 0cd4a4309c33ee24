"""The content of a message: its blocks, and the events that build them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import orjson

from llmserve.server.conversation import CallArguments, CallBegin, Piece, Reasoning, Words

Event: TypeAlias = dict[str, Any]

SIGNATURE = "llmserve"
"""Of reasoning: clients send it back and do not read it, and neither does this server."""


class ContentBlocks:
    """Makes blocks of a turn's pieces; each call gives the events of what is new."""

    def __init__(self, *, omits_thinking: bool = False) -> None:
        """``omits_thinking``: the blocks of reasoning are empty."""
        self._omits_thinking = omits_thinking
        self.blocks: list[dict[str, Any]] = []
        """All blocks, each whole once it is closed."""
        self._is_open = False
        self._texts: list[str] = []

    def add(self, piece: Piece) -> Iterator[Event]:
        """Takes a piece in."""
        if isinstance(piece, Words):
            if piece.text:
                yield from self._continue({"type": "text", "text": ""})
                yield self._delta(piece.text, "text_delta", "text")
        elif isinstance(piece, Reasoning) and piece.text:
            yield from self._continue({"type": "thinking", "thinking": "", "signature": ""})
            if not self._omits_thinking:
                yield self._delta(piece.text, "thinking_delta", "thinking")
        elif isinstance(piece, CallBegin):
            yield from self._open({"type": "tool_use", "id": piece.id, "name": piece.name, "input": {}})
        elif isinstance(piece, CallArguments):
            yield self._delta(piece.text, "input_json_delta", "partial_json")

    def _continue(self, block: dict[str, Any]) -> Iterator[Event]:
        """Opens a block, unless one of its type is open."""
        if not self._is_open or self.blocks[-1]["type"] != block["type"]:
            yield from self._open(block)

    def _open(self, block: dict[str, Any]) -> Iterator[Event]:
        yield from self.close()
        self.blocks.append(block)
        self._is_open, self._texts = True, []
        # A copy: the block is filled later, perhaps before the event is written.
        yield {"type": "content_block_start", **self._place, "content_block": dict(block)}

    def _delta(self, text: str, kind: str, field: str) -> Event:
        self._texts.append(text)
        return {"type": "content_block_delta", **self._place, "delta": {"type": kind, field: text}}

    def close(self) -> Iterator[Event]:
        """Ends the block that is open."""
        if not self._is_open:
            return
        block, text = self.blocks[-1], "".join(self._texts)
        if block["type"] == "tool_use":
            # As it was written: numbers keep all of their digits.
            block["input"] = orjson.Fragment(text or "{}")
        else:
            block[block["type"]] = text
        if block["type"] == "thinking":
            block["signature"] = SIGNATURE
            delta = {"type": "signature_delta", "signature": SIGNATURE}
            yield {"type": "content_block_delta", **self._place, "delta": delta}
        self._is_open = False
        yield {"type": "content_block_stop", **self._place}

    @property
    def _place(self) -> dict[str, int]:
        return {"index": len(self.blocks) - 1}
