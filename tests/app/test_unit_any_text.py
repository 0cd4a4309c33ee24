"""Every text survives its way through server-sent events, as one event."""

from __future__ import annotations

from collections.abc import Callable

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from llmserve import Delta, Token
from llmserve.server.apis.llamacpp import convert as llamacpp
from llmserve.server.apis.llamatik import convert as llamatik
from llmserve.server.apis.openai import answers as openai

FRAMES: dict[str, Callable[[str], bytes]] = {
    "llamatik": lambda text: llamatik.delta_frame(delta(text)),
    "llamatik error": llamatik.error_frame,
    "llamacpp": lambda text: b"".join(llamacpp.TokenFrames().render(delta(text))),
    "llamacpp error": llamacpp.fault_frame,
    "openai": lambda text: openai.frame({"choices": [{"delta": {"content": text}}]}),
}


def delta(text: str) -> Delta:
    return Delta(text=text, tokens=(Token(id=1, bytes=text.encode(), text=text),))


def read_events(stream: str) -> list[tuple[str, str]]:
    """Type and data of each event, as the HTML standard reads a stream ("Interpreting an event stream")."""
    events: list[tuple[str, str]] = []
    kind = "message"
    data: list[str] = []
    lines = stream.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for line in lines:
        name, _, value = line.partition(":")
        if not line:
            if data:
                events.append((kind, "\n".join(data)))
            kind, data = "message", []
        elif name == "data":
            data.append(value.removeprefix(" "))
        elif name == "event":
            kind = value.removeprefix(" ")
    return events


def texts_in(value: object) -> set[object]:
    if isinstance(value, dict):
        return {text for item in value.values() for text in texts_in(item)}
    if isinstance(value, list):
        return {text for item in value for text in texts_in(item)}
    return {value}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
@given(text=st.text(min_size=1))
@example(text="\r\n\r\ndata: [DONE]\r\n\r\n")
@example(text="\n\nevent: error\ndata: x\n\n")
@example(text="\ufeff: \u2028\u2029\0")
def test_a_text_is_one_event(frame: Callable[[str], bytes], text: str) -> None:
    ((kind, data),) = read_events(frame(text).decode())
    assert kind == ("error" if frame is llamacpp.fault_frame else "message")
    assert text in texts_in(orjson.loads(data))
