"""`/live`, `/ready` and `/health` through the life of a server."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from llmserve.server.lifecycle import Lifecycle
from llmserve.server.readiness import Readiness, Unready
from serving import RawStream, Server, get, post, serve, serve_in_process, serve_with_uvicorn, wait_until

LIVE, READY, HEALTH = "/live", "/ready", "/health"


def statuses(server: Server) -> tuple[int, int, int]:
    live, ready, health = (get(server.port, path).status for path in (LIVE, READY, HEALTH))
    return live, ready, health


def long_call(model: Path) -> dict[str, Any]:
    call = {"prompt": "sea", "max_tokens": 25_000, "ignore_eos": True, "stream": True}
    return {"model": model.stem, **call}


def short_call(model: Path) -> dict[str, Any]:
    return {"model": model.stem, "prompt": "sea", "max_tokens": 1}


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("path", [LIVE, READY, HEALTH])
def test_probes_need_no_key_and_no_name(tmp_path: Path, tiny_model: Path, path: str, method: str) -> None:
    with serve_in_process(tmp_path, tiny_model, env={"LLMSERVE_API_KEY": "secret"}) as server:
        answer = get(server.port, path, method=method, headers={"Host": "10.1.2.3:8082"})
        assert answer.status == 200
        assert answer.header("cache-control") == "no-store"
        assert answer.body == b"" if method == "HEAD" else answer.json["status"] == "ok"


def test_two_hosts_are_refused_everywhere(tmp_path: Path) -> None:
    with serve_in_process(tmp_path) as server:
        for path in (LIVE, READY, HEALTH, "/v1/models"):
            host = f"127.0.0.1:{server.port}"
            assert get(server.port, path, headers={"Host": host, "host": host}).status == 400


def test_a_server_without_a_first_model_is_ready(tmp_path: Path) -> None:
    with serve_in_process(tmp_path) as server:
        assert statuses(server) == (200, 200, 200)


def test_not_ready_while_the_first_model_is_being_loaded(tiny_model: Path, tmp_path: Path) -> None:
    env = {"LLMSERVE_MODEL": str(tiny_model)}
    with serve_with_uvicorn(tmp_path, app="serving.endless_load:app", env=env) as server:
        server.wait_until_listening()
        assert statuses(server) == (200, 503, 200)
        answer = get(server.port, READY).json
        assert answer["status"] == "loading"
        assert answer["reason"].startswith("llama is being loaded: ")
        server.signal(signal.SIGTERM)
        assert server.wait() == -signal.SIGTERM


def test_not_ready_when_the_first_model_has_failed(tmp_path: Path) -> None:
    file = tmp_path / "broken.gguf"
    file.write_bytes(b"GGUF")
    with serve_in_process(tmp_path, env={"LLMSERVE_MODEL": str(file)}) as server:
        wait_until(lambda: get(server.port, READY).json["status"] == "failed")
        assert statuses(server) == (200, 503, 200)
        assert get(server.port, READY).json["reason"] == "broken could not be loaded"


class FakeModel:
    id = "a"

    def __init__(self, *, is_dead: bool) -> None:
        self.is_dead = is_dead


class FakeRegistry:
    def __init__(self, *models: FakeModel) -> None:
        self.models = models


class NoModel:
    model = None


def readiness(lifecycle: Lifecycle, *models: FakeModel) -> Readiness:
    return Readiness(NoModel(), FakeRegistry(*models), lifecycle)  # type: ignore[arg-type]


def test_not_ready_when_an_engine_has_died() -> None:
    lack = readiness(Lifecycle(), FakeModel(is_dead=False), FakeModel(is_dead=True)).lack()
    assert lack == Unready("error", "the engine of a has died")


def test_not_ready_from_the_beginning_of_the_end() -> None:
    async def main() -> None:
        lifecycle = Lifecycle()
        ready = readiness(lifecycle)
        assert ready.lack() is None
        for change in (lifecycle.leave, lifecycle.drain, lifecycle.leave, lifecycle.stop):
            change()
            lack = ready.lack()
            assert lack is not None
            assert lack.status == "draining"
        assert lifecycle.is_stopping

    asyncio.run(main())


@pytest.mark.slow
def test_new_requests_are_served_for_a_while_after_the_signal(tiny_model: Path, tmp_path: Path) -> None:
    with serve(tmp_path, tiny_model, "--prestop-s", "1000", "--grace-s", "1000") as server:
        server.wait_until_ready()
        assert statuses(server) == (200, 200, 200)
        server.signal(signal.SIGTERM)
        wait_until(lambda: get(server.port, READY).status == 503)
        assert get(server.port, READY).json == {
            "status": "draining",
            "reason": "the server is about to end",
        }
        assert statuses(server) == (200, 503, 200)
        answer = post(server.port, "/v1/completions", short_call(tiny_model))
        assert answer.status == 200
        assert answer.header("connection") is None
        server.signal(signal.SIGTERM)
        assert server.wait() == 0


@pytest.mark.slow
def test_then_they_are_refused_while_running_ones_go_on(tiny_model: Path, tmp_path: Path) -> None:
    options = ("--prestop-s", "0.1", "--grace-s", "1000", "--context-length", "30000")
    with serve(tmp_path, tiny_model, *options) as server:
        server.wait_until_ready()
        with RawStream(server.port, "/v1/completions", long_call(tiny_model)) as stream:
            assert stream.read_head()[0] == 200
            lines = stream.lines()
            next(lines)
            server.signal(signal.SIGTERM)
            wait_until(lambda: get(server.port, HEALTH).status == 503)
            assert statuses(server) == (200, 503, 503)
            refused = post(server.port, "/v1/completions", short_call(tiny_model))
            assert refused.status == 503
            assert refused.header("connection") == "close"
            assert refused.header("retry-after") == "5"
            next(lines)
            server.signal(signal.SIGTERM)
            assert "the server is stopping" in list(lines)[-1]
        assert server.wait() == 0
