from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from starlette.types import Message

from llmserve.server.web.sse import DONE, EVENT_STREAM, PING, data_frame, error_frame
from llmserve.server.web.streams import AnswerFailedError, StreamLimits, write_stream
from llmserve.server.web.writing import ClientStalledError, Writer

# Ends a hanging test, times nothing.
PATIENCE_S = 120

PATIENT = StreamLimits(ping_s=60, stall_s=60)
PINGING = StreamLimits(ping_s=0.01, stall_s=60)
HASTY = StreamLimits(ping_s=0.01, stall_s=0.05)


class Wire:
    """What a server would put on the wire; `gate` holds every send up."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.has_ping = asyncio.Event()

    async def send(self, message: Message) -> None:
        await self.gate.wait()
        self.messages.append(message)
        if message.get("body") == PING:
            self.has_ping.set()

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages)


def render(error: Exception) -> bytes:
    return error_frame(f'"{error}"'.encode())


def test_frames_go_out_one_by_one_and_the_body_ends_once() -> None:
    async def frames() -> AsyncGenerator[bytes, None]:
        yield data_frame(b"1")
        yield DONE

    async def main() -> Wire:
        wire = Wire()
        await write_stream(wire.send, PATIENT, EVENT_STREAM, frames(), [(b"x-a", b"b")], render)
        return wire

    wire = asyncio.run(main())
    start, *bodies = wire.messages
    assert start["status"] == 200
    assert dict(start["headers"])[b"content-type"] == b"text/event-stream; charset=utf-8"
    assert dict(start["headers"])[b"x-a"] == b"b"
    assert [body["body"] for body in bodies] == [b"", b"data: 1\n\n", b"data: [DONE]\n\n", b""]
    assert [body["more_body"] for body in bodies] == [True, True, True, False]


def test_a_fault_becomes_the_last_frame() -> None:
    async def frames() -> AsyncGenerator[bytes, None]:
        yield data_frame(b"1")
        raise ValueError("broken")

    async def main() -> Wire:
        wire = Wire()
        with pytest.raises(AnswerFailedError, match="broken") as failed:
            await write_stream(wire.send, PATIENT, EVENT_STREAM, frames(), [], render)
        assert isinstance(failed.value.error, ValueError)
        return wire

    wire = asyncio.run(main())
    assert wire.body == b'data: 1\n\nevent: error\ndata: "broken"\n\n'
    assert wire.messages[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


def test_quiet_streams_get_comments_and_no_more_once_frames_flow() -> None:
    async def main() -> Wire:
        wire = Wire()

        async def frames() -> AsyncGenerator[bytes, None]:
            await wire.has_ping.wait()
            yield DONE

        await write_stream(wire.send, PINGING, EVENT_STREAM, frames(), [], render)
        return wire

    wire = asyncio.run(main())
    assert wire.body.startswith(PING)
    assert wire.body.removeprefix(PING).replace(PING, b"") == DONE


def test_a_client_that_stops_reading_is_cut_off_and_its_frames_are_closed() -> None:
    is_closed = False

    async def frames() -> AsyncGenerator[bytes, None]:
        nonlocal is_closed
        try:
            while True:
                yield data_frame(b"x")
                await asyncio.sleep(0)
        finally:
            is_closed = True

    async def main() -> Wire:
        wire = Wire()

        async def send(message: Message) -> None:
            if len(wire.messages) == 3:
                wire.gate.clear()
            await wire.send(message)

        with pytest.raises(ClientStalledError):
            await write_stream(send, HASTY, EVENT_STREAM, frames(), [], render)
        return wire

    wire = asyncio.run(main())
    assert is_closed
    assert len(wire.messages) == 3


def test_a_stalled_client_is_noticed_however_rare_comments_are() -> None:
    async def frames() -> AsyncGenerator[bytes, None]:
        await asyncio.sleep(0)  # the watchdog has looked, and sleeps
        yield DONE

    async def main() -> None:
        wire = Wire()

        async def send(message: Message) -> None:
            if message.get("body") == DONE:
                wire.gate.clear()
            await wire.send(message)

        limits = StreamLimits(ping_s=10_000, stall_s=0.01)
        writing = asyncio.create_task(write_stream(send, limits, EVENT_STREAM, frames(), [], render))
        done, _ = await asyncio.wait({writing}, timeout=PATIENCE_S)
        assert done, "not noticed"
        with pytest.raises(ClientStalledError):
            await writing

    asyncio.run(main())


def test_a_fault_of_a_comment_ends_the_stream() -> None:
    async def frames() -> AsyncGenerator[bytes, None]:
        await asyncio.Event().wait()
        yield DONE

    async def main() -> None:
        async def send(message: Message) -> None:
            if message.get("body") == PING:
                raise OSError("broken pipe")

        with pytest.raises(OSError, match="broken pipe"):
            await write_stream(send, PINGING, EVENT_STREAM, frames(), [], render)

    asyncio.run(main())


def test_a_cancellation_that_comes_with_the_end_of_a_comment_is_not_lost() -> None:
    async def main() -> None:
        has_sent = asyncio.Event()

        async def write(message: bytes) -> None:
            await has_sent.wait()

        pinging = asyncio.create_task(Writer(write, 60)._ping(PING))
        for _ in range(3):
            await asyncio.sleep(0)
        has_sent.set()
        pinging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pinging

    asyncio.run(main())


def test_a_quiet_stream_to_a_client_that_does_not_take_its_comment_is_cut_off() -> None:
    async def frames() -> AsyncGenerator[bytes, None]:
        await asyncio.Event().wait()
        yield DONE

    async def main() -> None:
        wire = Wire()

        async def send(message: Message) -> None:
            if message.get("body") == PING:
                wire.gate.clear()
            await wire.send(message)

        with pytest.raises(ClientStalledError):
            await write_stream(send, HASTY, EVENT_STREAM, frames(), [], render)

    asyncio.run(main())


def test_cancelling_closes_the_frames() -> None:
    is_closed = asyncio.Event()

    async def main() -> None:
        has_begun = asyncio.Event()

        async def frames() -> AsyncGenerator[bytes, None]:
            try:
                has_begun.set()
                await asyncio.Event().wait()
                yield DONE
            finally:
                is_closed.set()

        writing = asyncio.create_task(write_stream(Wire().send, PATIENT, EVENT_STREAM, frames(), [], render))
        await has_begun.wait()
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing

    asyncio.run(main())
    assert is_closed.is_set()
