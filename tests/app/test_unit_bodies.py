from __future__ import annotations

import asyncio
import threading
from typing import Any

import orjson
import pytest
from starlette.requests import Request
from starlette.types import Message

from llmserve.server.refusals import BodiesFullError, BodyTimeoutError, MalformedBodyError
from llmserve.server.web.bodies import MAX_DEPTH, MAX_PARTS, SMALL_BYTES, Bodies, parse_object
from llmserve.server.web.error_table import rule_for
from llmserve.server.web.errors import fault_headers, fault_of


class Upload:
    """A request whose body comes piece by piece; an empty piece ends it."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()
        for piece in pieces:
            self.send(piece)
        self.request = Request({"type": "http", "method": "POST", "headers": []}, self._receive)

    def send(self, piece: bytes) -> None:
        self._pieces.put_nowait(piece)

    async def _receive(self) -> Message:
        piece = await self._pieces.get()
        return {"type": "http.request", "body": piece, "more_body": bool(piece)}


async def settled() -> None:
    """Until every task has gone as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_body_that_does_not_arrive_in_time_is_refused_and_gives_its_bytes_back() -> None:
    async def main() -> None:
        bodies = Bodies(0.01, 100)
        upload = Upload(b"x" * 60)
        with pytest.raises(BodyTimeoutError, match=r"within 0\.01 s"):
            await bodies.read(upload.request, bytes)
        assert bodies.num_bytes == 0

    asyncio.run(main())
    fault = fault_of(BodyTimeoutError(1), "")
    # The connection is of no use: the rest of the body may come in it for as long as it likes.
    assert (fault.status, fault_headers(fault)) == (408, [(b"connection", b"close")])


def test_all_bodies_together_keep_to_the_budget() -> None:
    async def main() -> None:
        bodies = Bodies(60, 100)
        first, second = Upload(b"x" * 60), Upload(b"y" * 40)
        reading = [asyncio.create_task(bodies.read(upload.request, len)) for upload in (first, second)]
        await settled()
        assert bodies.num_bytes == 100
        with pytest.raises(BodiesFullError, match="100 bytes in total"):
            await bodies.read(Upload(b"z", b"").request, len)
        # The two that were there first go on.
        assert not any(task.done() for task in reading)
        second.send(b"")
        assert await reading[1] == 40
        assert await bodies.read(Upload(b"z" * 40, b"").request, len) == 40
        first.send(b"")
        assert await reading[0] == 60
        assert bodies.num_bytes == 0

    asyncio.run(main())
    rule = rule_for(BodiesFullError(1))
    assert rule is not None
    assert (rule.status, rule.retry_after_s) == (503, 1.0)


def test_a_reader_that_leaves_or_fails_gives_its_bytes_back() -> None:
    def fail(body: bytearray) -> None:
        raise ValueError("broken")

    async def main() -> None:
        bodies = Bodies(60, SMALL_BYTES * 4)
        leaving = asyncio.create_task(bodies.read(Upload(b"x" * 60).request, len))
        await settled()
        assert bodies.num_bytes == 60
        leaving.cancel()
        await asyncio.wait({leaving})
        assert bodies.num_bytes == 0
        for size in (10, SMALL_BYTES + 1):
            with pytest.raises(ValueError, match="broken"):
                await bodies.read(Upload(b"x" * size, b"").request, fail)
            assert bodies.num_bytes == 0

    asyncio.run(main())


@pytest.mark.parametrize(("size", "is_beside"), [(SMALL_BYTES, False), (SMALL_BYTES + 1, True)])
def test_large_bodies_are_read_beside_the_event_loop(size: int, is_beside: bool) -> None:
    def make(body: bytearray) -> int:
        assert len(body) == size
        return threading.get_ident()

    async def main() -> None:
        thread = await Bodies(60, 1 << 30).read(Upload(b"x" * size, b"").request, make)
        assert (thread != threading.get_ident()) is is_beside

    asyncio.run(main())


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "got an empty body"),
        (b"[]", "got an array"),
        (b"{", "is not valid JSON"),
        (b'{"a":NaN}', "is not valid JSON"),
        (b'{"a":"\xff"}', "is not valid JSON"),
    ],
)
def test_what_is_not_an_object_is_refused(body: bytes, reason: str) -> None:
    with pytest.raises(MalformedBodyError, match=reason):
        parse_object(body)


def test_the_depth_is_bounded() -> None:
    def nested(depth: int, opening: str, closing: str) -> bytes:
        # One level is the body itself. Brackets beside it and in texts do not count.
        wide = '[],{"b":[]},"[[{{",' * MAX_DEPTH
        return f'{{"a":[{wide}{opening * (depth - 2)}1{closing * (depth - 2)}]}}'.encode()

    for opening, closing in (("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")):
        levels = opening.count("[") + opening.count("{")
        deepest = MAX_DEPTH // levels + 2 - 2 // levels
        assert "a" in parse_object(nested(deepest, opening, closing))
        with pytest.raises(MalformedBodyError, match="at most 128 levels"):
            parse_object(nested(deepest + 1, opening, closing))
        # Deeper than the parser itself goes.
        with pytest.raises(MalformedBodyError):
            parse_object(nested(100_000, opening, closing))


@pytest.mark.parametrize("part", [b"[]", b"{}", b'{"a":1}'])
def test_the_number_of_objects_arrays_and_members_is_bounded(part: bytes) -> None:
    marks = part.count(b"{") + part.count(b"[") + part.count(b":")
    most = (MAX_PARTS - 3) // marks  # beside the body, its member and that member's array
    assert len(parse_object(b'{"a":[' + b",".join([part] * most) + b"]}")["a"]) == most
    with pytest.raises(MalformedBodyError, match=f"at most {MAX_PARTS} objects, arrays and members"):
        parse_object(b'{"a":[' + b",".join([part] * (most + 1)) + b"]}")


def test_texts_may_have_any_number_of_brackets() -> None:
    text = '[{"\\:' * MAX_PARTS
    assert parse_object(orjson.dumps({"prompt": text}))["prompt"] == text


def test_an_empty_body_can_be_an_empty_object() -> None:
    assert parse_object(b"", may_be_empty=True) == {}
    made: Any = {"a": [1, {"b": None}]}
    assert parse_object(orjson.dumps(made)) == made
