"""The client of the HTTP benches, in a process of its own: a plan as JSON comes in, times go out.

It notes when each chunk arrives and looks at nothing more while it runs, so that it takes little of the
cores that the server needs.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

LIMIT = 1 << 20


class Stream:
    """One request and what came back: `[seconds, text]` for each chunk of the body."""

    def __init__(self, port: int, request: dict[str, Any]) -> None:
        """Prepares the request; `run` sends it."""
        body = json.dumps(request["body"]).encode()
        head = (
            f"POST {request['path']} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self._port = port
        self._message = head.encode() + body
        self._after_s = request.get("after_s", 0.0)
        self._limit_s = request.get("limit_s")
        self.sent = 0.0
        self.cut_off: float | None = None
        self.status = 0
        self.chunks: list[tuple[float, bytes]] = []
        self.arrived = asyncio.Event()
        self.wanted = 0

    async def run(self) -> None:
        """Sends the request when it is due and reads to its end, or drops it when its time is over."""
        await asyncio.sleep(self._after_s)
        self.sent = time.perf_counter()
        try:
            await asyncio.wait_for(self._exchange(), self._limit_s)
        except TimeoutError:
            self.cut_off = time.perf_counter()
        finally:
            self.arrived.set()  # nothing more comes: nobody is to wait for it

    async def _exchange(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=LIMIT)
        try:
            writer.write(self._message)
            head = await reader.readuntil(b"\r\n\r\n")
            self.status = int(head.split(b" ", 2)[1])
            if b"transfer-encoding: chunked" in head.lower():
                await self._read_chunks(reader)
            else:
                self._note(await reader.read())
        finally:
            writer.close()

    async def _read_chunks(self, reader: asyncio.StreamReader) -> None:
        while size := int(await reader.readline(), 16):
            self._note((await reader.readexactly(size + 2))[:-2])

    def _note(self, data: bytes) -> None:
        self.chunks.append((time.perf_counter(), data))
        if len(self.chunks) >= self.wanted:
            self.arrived.set()

    def report(self) -> dict[str, Any]:
        """The stream as JSON."""
        chunks = [(at, data.decode(errors="replace")) for at, data in self.chunks]
        return {"sent": self.sent, "cut_off": self.cut_off, "status": self.status, "chunks": chunks}


async def poll(port: int, path: str, interval_s: float) -> list[float]:
    """Asks for `path` again and again until cancelled; the seconds that each answer took."""
    message = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode()
    latencies: list[float] = []
    try:
        while True:
            started = time.perf_counter()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(message)
            await reader.read()
            writer.close()
            latencies.append(time.perf_counter() - started)
            await asyncio.sleep(interval_s)
    except asyncio.CancelledError:
        return latencies


async def run(plan: dict[str, Any]) -> dict[str, Any]:
    """Carries `plan` out: streams as they are due, perhaps an arrival while they run and a poll beside."""
    port = plan["port"]
    streams = [Stream(port, request) for request in plan["streams"]]
    for stream in streams:
        stream.wanted = plan["arrival_after"]
    running = [asyncio.create_task(stream.run()) for stream in streams]
    polling = None
    if plan["poll_path"] is not None:
        polling = asyncio.create_task(poll(port, plan["poll_path"], plan["poll_interval_s"]))
    arrival = None
    if plan["arrival"] is not None:
        await asyncio.gather(*(stream.arrived.wait() for stream in streams))
        arrival = Stream(port, plan["arrival"])
        await arrival.run()
        ended = sum(task.done() for task in running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    else:
        await asyncio.gather(*running)
        ended = len(running)
    latencies: list[float] = []
    if polling is not None:
        polling.cancel()
        latencies = await polling
    return {
        "streams": [stream.report() for stream in streams],
        "arrival": None if arrival is None else arrival.report(),
        "ended_early": ended,
        "latencies": latencies,
    }


if __name__ == "__main__":
    json.dump(asyncio.run(run(json.load(sys.stdin))), sys.stdout)
