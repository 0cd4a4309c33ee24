"""Replicas of Ray Serve without Ray, which share a folder of sessions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from llmserve.ray import replica as module
from llmserve.ray.calls import Call, Head
from llmserve.ray.plan import plan_of
from llmserve.ray.replica import LoadFailedError, Replica, UnhealthyError
from llmserve.routing import key_of
from loops import one_loop
from serving.server import SMALL

pytestmark = [pytest.mark.anyio, one_loop]

PATH = "/v1/completions"


@asynccontextmanager
async def replica(folder: Path, model: Path) -> AsyncGenerator[Replica, None]:
    made = Replica(plan_of({**SMALL, "SESSIONS_DIR": str(folder)}, {"model": str(model)}, folder).settings)
    await made.start()
    try:
        yield made
    finally:
        await made.end()


def call_of(prompt: str, session: str) -> Call:
    body = json.dumps({"prompt": prompt, "max_tokens": 4, "temperature": 0}).encode()
    headers = {"content-type": "application/json", "x-llmserve-session": session}
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": PATH,
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }
    return Call(scope, body, key_of(PATH, headers, body))


def kept_files(folder: Path) -> list[Path]:
    return list(folder.glob("kept/*/*"))


async def ask(to: Replica, prompt: str, session: str, *, has_lost: bool = False) -> tuple[int, Any]:
    parts = [part async for part in to.serve(call_of(prompt, session), has_lost_session=has_lost)]
    assert isinstance(parts[0], Head)
    return parts[0].status, json.loads(b"".join(part for part in parts[1:] if isinstance(part, bytes)))


async def test_a_session_goes_on_where_its_replica_left_it(tiny_model: Path, tmp_path: Path) -> None:
    async with replica(tmp_path, tiny_model) as other:
        async with replica(tmp_path, tiny_model) as first:
            _, begun = await ask(first, "Once upon a time", "Ada")
            ending = asyncio.create_task(first.end())
            # The call comes while the session is still being saved.
            status, went_on = await ask(other, " and", "Ada", has_lost=True)
            await ending
        assert status == 200
        assert went_on["usage"]["prompt_tokens"] > begun["usage"]["total_tokens"]
        assert kept_files(tmp_path) == []
        assert (await other.record_routing_stats())["sessions"] == ["Ada"]


async def test_a_replica_takes_only_the_sessions_it_is_asked_for(tiny_model: Path, tmp_path: Path) -> None:
    async with replica(tmp_path, tiny_model) as first:
        for name in ("Ada", "Bob"):
            await ask(first, "Once upon a time", name)
    async with replica(tmp_path, tiny_model) as one, replica(tmp_path, tiny_model) as two:
        for to, name in ((one, "Ada"), (two, "Bob")):
            _, went_on = await ask(to, " and", name)
            assert went_on["usage"]["prompt_tokens"] > 12
        assert (await one.record_routing_stats())["sessions"] == ["Ada"]
        assert (await two.record_routing_stats())["sessions"] == ["Bob"]


async def test_a_session_that_nobody_kept_is_an_error_once(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT_WAIT_S", 0.0)
    async with replica(tmp_path, tiny_model) as only:
        status, error = await ask(only, " and", "Ada", has_lost=True)
        assert (status, error["error"]["code"]) == (410, "session_expired")
        assert (await ask(only, "Once", "Ada"))[0] == 200
        # Now it is here, and nobody waits for it.
        monkeypatch.setattr(module, "KEPT_WAIT_S", float("inf"))
        assert (await ask(only, " and", "Ada", has_lost=True))[0] == 200


async def test_a_damaged_file_is_an_error_and_no_empty_session(tiny_model: Path, tmp_path: Path) -> None:
    async with replica(tmp_path, tiny_model) as first:
        await ask(first, "Once upon a time", "Ada")
    (file,) = kept_files(tmp_path)
    file.write_bytes(file.read_bytes()[:-1])
    async with replica(tmp_path, tiny_model) as only:
        assert (await ask(only, " and", "Ada"))[0] == 410


async def test_what_a_replica_tells_of_itself(tiny_model: Path, tmp_path: Path) -> None:
    async with replica(tmp_path, tiny_model) as only:
        await only.check_health()
        call = call_of("x" * 200, "Ada")
        await ask(only, "x" * 200, "Ada")
        assert (await only.record_routing_stats())["blocks"] == [call.key.blocks[-1]]
        assert await only.record_autoscaling_stats() == {"sequences": 0.0}


async def test_a_model_that_cannot_be_loaded_is_no_replica(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF")
    with pytest.raises(LoadFailedError, match=r"broken\.gguf"):
        async with replica(tmp_path, broken):
            pass


async def test_a_dead_engine_is_unhealthy(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with replica(tmp_path, tiny_model) as only:
        (model,) = only._services.registry.models
        monkeypatch.setattr(type(model), "is_dead", True)
        with pytest.raises(UnhealthyError, match="has died"):
            await only.check_health()
        monkeypatch.undo()
