from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from starlette.requests import Request
from starlette.types import Message

from llmserve.server.lifecycle import Lifecycle
from llmserve.server.refusals import RouteNotFoundError
from llmserve.server.web.bodies import Bodies
from llmserve.server.web.errors import PLAIN, fault_of, send_fault
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.streams import StreamLimits
from llmserve.server.web.uploads import Upload
from llmserve.server.web.writing import ClientStalledError


class Reader:
    """A client that reads some bytes of a body and then stops."""

    def __init__(self, num_bytes: int) -> None:
        self._num_bytes = num_bytes
        self.body = b""
        self.num_ends = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            return
        if len(self.body) >= self._num_bytes:
            await asyncio.Event().wait()
        self.body += message["body"]
        self.num_ends += not message["more_body"]


async def nothing() -> Message:
    raise AssertionError


def exchange(reader: Reader, stall_s: float) -> Exchange:
    request = Request({"type": "http", "method": "POST", "headers": []}, nothing)
    return Exchange(request, reader.send, StreamLimits(ping_s=60, stall_s=stall_s), Bodies(60, 1000))


@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, 1_000_000])
def test_a_body_is_sent_whole(size: int) -> None:
    body = bytes(range(256)) * (size // 256 + 1)
    reader = Reader(1 << 30)
    asyncio.run(exchange(reader, 60).send_bytes(body[:size], "text/plain"))
    assert (reader.body, reader.num_ends) == (body[:size], 1)


def test_a_client_that_stops_reading_a_whole_answer_is_cut_off_too() -> None:
    reader = Reader(100_000)
    with pytest.raises(ClientStalledError):
        asyncio.run(exchange(reader, 0.01).send_bytes(bytes(1_000_000), "text/plain"))
    assert len(reader.body) < 200_000


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_client_that_takes_not_even_the_head_is_cut_off(is_stream: bool) -> None:
    """Like a client that has sent its requests at once and read none of the answers."""

    async def send(message: Message) -> None:
        assert message["type"] == "http.response.start"
        await asyncio.Event().wait()

    async def frames() -> AsyncGenerator[bytes, None]:
        yield b"data: 1\n\n"

    async def main() -> None:
        request = Request({"type": "http", "method": "POST", "headers": []}, nothing)
        answering = Exchange(request, send, StreamLimits(ping_s=60, stall_s=0.01), Bodies(60, 1000))
        with pytest.raises(ClientStalledError):
            if is_stream:
                await answering.send_events(frames(), lambda error: b"")
            else:
                await answering.send_json({})

    asyncio.run(main())


def test_a_client_that_does_not_take_an_error_is_cut_off() -> None:
    async def send(message: Message) -> None:
        await asyncio.Event().wait()

    with pytest.raises(ClientStalledError):
        upload = Upload({"headers": []}, nothing, 0, Lifecycle())
        asyncio.run(send_fault(fault_of(RouteNotFoundError(), ""), PLAIN, send, 0.01, upload))
