"""The output of a response: its items, and the typed events that build them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any, TypeAlias

from llmserve.server.conversation import CallArguments, CallBegin, Piece, Reasoning, Tag, Words

Event: TypeAlias = dict[str, Any]


class OutputItems:
    """Makes items of a turn's pieces; each call gives the events of what is new."""

    def __init__(self, *, shows_tags: bool = False) -> None:
        """``shows_tags``: reasoning is part of the text, between its tags."""
        self._shows_tags = shows_tags
        self.items: list[dict[str, Any]] = []
        self._texts: list[str] = []

    def add(self, piece: Piece) -> Iterator[Event]:
        """Takes a piece in."""
        if isinstance(piece, Words) or (self._shows_tags and isinstance(piece, Reasoning | Tag)):
            if piece.text:
                yield from self._add_text("message", piece.text)
        elif isinstance(piece, Reasoning):
            yield from self._add_text("reasoning", piece.text)
        elif isinstance(piece, CallBegin):
            yield from self.close("completed")
            item = {
                "id": f"fc_{secrets.token_hex(12)}",
                "type": "function_call",
                "status": "in_progress",
                "call_id": piece.id,
                "name": piece.name,
                "arguments": "",
            }
            yield from self._open(item)
        elif isinstance(piece, CallArguments):
            self._texts.append(piece.text)
            yield self._event("response.function_call_arguments.delta", delta=piece.text)

    def _add_text(self, kind: str, text: str) -> Iterator[Event]:
        if not self.items or self.items[-1]["type"] != kind or self.items[-1]["status"] != "in_progress":
            yield from self.close("completed")
            yield from self._open(_new_message() if kind == "message" else _new_reasoning())
            yield self._event("response.content_part.added", content_index=0, part=_part(kind, ""))
        self._texts.append(text)
        if kind == "message":
            yield self._event("response.output_text.delta", content_index=0, delta=text, logprobs=[])
        else:
            yield self._event("response.reasoning_text.delta", content_index=0, delta=text)

    def _open(self, item: dict[str, Any]) -> Iterator[Event]:
        self.items.append(item)
        self._texts = []
        # A copy: the item grows, and the event is written later.
        yield {
            "type": "response.output_item.added",
            "output_index": len(self.items) - 1,
            "item": dict(item),
        }

    def close(self, status: str) -> Iterator[Event]:
        """Ends the item that is open."""
        if not self.items or self.items[-1]["status"] != "in_progress":
            return
        item, text = self.items[-1], "".join(self._texts)
        item["status"] = status
        kind = item["type"]
        if kind == "function_call":
            item["arguments"] = text
            yield self._event("response.function_call_arguments.done", arguments=text, name=item["name"])
        else:
            part = _part(kind, text)
            item["content"] = [part]
            if kind == "message":
                yield self._event("response.output_text.done", content_index=0, text=text, logprobs=[])
            else:
                yield self._event("response.reasoning_text.done", content_index=0, text=text)
            yield self._event("response.content_part.done", content_index=0, part=part)
        yield {
            "type": "response.output_item.done",
            "output_index": len(self.items) - 1,
            "item": dict(item),
        }

    def _event(self, kind: str, **fields: Any) -> Event:
        place = {"item_id": self.items[-1]["id"], "output_index": len(self.items) - 1}
        return {"type": kind, **place, **fields}


def _new_message() -> dict[str, Any]:
    return {
        "id": f"msg_{secrets.token_hex(12)}",
        "type": "message",
        "status": "in_progress",
        "role": "assistant",
        "content": [],
    }


def _new_reasoning() -> dict[str, Any]:
    return {
        "id": f"rs_{secrets.token_hex(12)}",
        "type": "reasoning",
        "status": "in_progress",
        "summary": [],
        "content": [],
    }


def _part(kind: str, text: str) -> dict[str, Any]:
    if kind == "reasoning":
        return {"type": "reasoning_text", "text": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
