"""Calls the client `sie-sdk` as it comes from PyPI. A program of its own: it needs Python 3.12 or newer.

Each line of input is a call, `{"method": ..., "arguments": {...}, "is_async": ...}`; each line of output is
what came of it: `{"result": ...}`, with a list for a stream, or `{"error": {"type", "code", ...}}`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from sie_sdk import SIEAsyncClient, SIEClient


def call(url: str, method: str, arguments: dict[str, Any]) -> Any:
    with SIEClient(url) as client:
        made = getattr(client, method)(**arguments)
        return list(made) if method == "stream_generate" else made


async def call_async(url: str, method: str, arguments: dict[str, Any]) -> Any:
    async with SIEAsyncClient(url) as client:
        made = getattr(client, method)(**arguments)
        return [chunk async for chunk in made] if method == "stream_generate" else await made


def answer(url: str, wanted: dict[str, Any]) -> dict[str, Any]:
    method, arguments = wanted["method"], wanted["arguments"]
    try:
        if wanted["is_async"]:
            return {"result": asyncio.run(call_async(url, method, arguments))}
        return {"result": call(url, method, arguments)}
    except Exception as error:
        named = {name: getattr(error, name, None) for name in ("code", "param")}
        return {"error": {"type": type(error).__name__, "message": str(error), **named}}


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(answer(sys.argv[1], json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
