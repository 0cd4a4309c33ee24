"""Calls of the Llamatik dialect."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from serving.client import Answer, RawStream, events, get, post
from serving.server import Server

PREFIX = "/v1/generation/"


class Llamatik:
    """A server's routes below `/v1/generation/`."""

    def __init__(self, server: Server) -> None:
        self.port = server.port

    def post(self, route: str, body: object = None, *, headers: Mapping[str, str] | None = None) -> Answer:
        """Posts a JSON body, or none at all."""
        return post(self.port, PREFIX + route, b"" if body is None else body, headers=headers)

    def get(self, route: str) -> Answer:
        return get(self.port, PREFIX + route)

    def init(self, path: Path) -> None:
        self.ok("init", {"modelPath": str(path)})

    def ok(self, route: str, body: object = None) -> None:
        """A call that answers `{"ok":true}` and nothing else, but for what a save says of its file."""
        answer = self.post(route, body)
        assert answer.status == 200, answer.text
        more = {"tokens", "bytes"} if route == "session/save" else set()
        assert (answer.json["ok"], set(answer.json)) == (True, {"ok", *more})

    def whole(self, route: str, **body: Any) -> dict[str, Any]:
        """The answer of a one-shot call."""
        answer = self.post(route, body)
        assert answer.status == 200, answer.text
        made: dict[str, Any] = answer.json
        return made

    def text(self, route: str, **body: Any) -> str:
        text: str = self.whole(route, **body)["text"]
        return text

    def stream(self, route: str, **body: Any) -> list[dict[str, Any]]:
        """The events of a streaming call."""
        answer = self.post(route, body)
        assert answer.status == 200, answer.text
        assert (answer.header("content-type") or "").startswith("text/event-stream")
        return [parsed(line) for line in events(answer.text)]

    def open(self, route: str, **body: Any) -> RawStream:
        """A call whose answer is read as it comes."""
        return RawStream(self.port, PREFIX + route, body)


def parsed(line: str) -> dict[str, Any]:
    """The event of a line of a stream."""
    assert line.startswith("data: {"), line
    event: dict[str, Any] = json.loads(line.removeprefix("data: "))
    return event


def rest(lines: Iterator[str]) -> list[dict[str, Any]]:
    """The events that are still to come."""
    return [parsed(line) for line in lines if not line.startswith(":")]


def joined(made: list[dict[str, Any]]) -> str:
    """The text of a stream that ended well; its events have no more than they may."""
    *deltas, done = made
    assert done["event"] == "done"
    for delta in deltas:
        assert set(delta) == {"event", "text"}
        assert delta["event"] == "delta"
        assert delta["text"] != ""
    return "".join(delta["text"] for delta in deltas)
