"""Clients that leave, in every phase, with and without a function-style middleware outside (C009, C011, "
"C015)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from serving import RawStream, ServerProcess, post, read_metrics, serve_with_uvicorn, wait_until

CONTEXT_LENGTH = 20_000
LONG = "word " * (CONTEXT_LENGTH // 5 - 100)


@pytest.fixture(
    scope="module",
    params=["llmserve.app:app", "serving.mounted:behind_middleware"],
    ids=["plain", "middleware"],
)
def server(
    request: pytest.FixtureRequest, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """One sequence, so that a second request waits."""
    env = {"LLMSERVE_MODEL": str(tiny_model), "LLMSERVE_MAX_SEQUENCES": "1", "LLMSERVE_PREFIX_CACHE": "false"}
    env["LLMSERVE_CONTEXT_LENGTH"] = str(CONTEXT_LENGTH)
    with serve_with_uvicorn(tmp_path_factory.mktemp("server"), app=request.param, env=env) as running:
        running.wait_until_ready()
        yield running


class Engine:
    """The engine's metrics."""

    def __init__(self, server: ServerProcess, model: Path) -> None:
        self._port = server.port
        self._label = f'{{model="{model.stem}"}}'

    def __getitem__(self, name: str) -> float:
        return read_metrics(self._port)[f"llmserve_{name}{self._label}"]

    def num_in_flight(self) -> float:
        return self["requests_running"] + self["requests_waiting"] + self["requests_preparing"]


@pytest.fixture
def engine(server: ServerProcess, tiny_model: Path) -> Engine:
    return Engine(server, tiny_model)


def body(
    model: Path, *, stream: bool, prompt: str = "Once upon a time", max_tokens: int = CONTEXT_LENGTH - 1000
) -> dict[str, Any]:
    return {"model": str(model), "prompt": prompt, "max_tokens": max_tokens, "stream": stream}


@pytest.mark.parametrize("is_stream", [True, False], ids=["stream", "one-shot"])
def test_leaving_while_tokens_come(
    server: ServerProcess, engine: Engine, tiny_model: Path, is_stream: bool
) -> None:
    cancelled = engine["requests_cancelled_total"]
    with RawStream(server.port, "/completions", body(tiny_model, stream=is_stream)) as stream:
        if is_stream:
            assert stream.read_head()[0] == 200
            assert next(stream.lines()).startswith("data: {")
        else:
            tokens = engine["completion_tokens_total"]
            wait_until(lambda: engine["completion_tokens_total"] > tokens)
    wait_until(lambda: engine.num_in_flight() == 0)
    assert engine["requests_cancelled_total"] == cancelled + 1
    assert post(server.port, "/completions", body(tiny_model, stream=False, max_tokens=2)).status == 200


@pytest.mark.parametrize("is_stream", [True, False], ids=["stream", "one-shot"])
def test_leaving_in_the_prompt_phase(
    server: ServerProcess, engine: Engine, tiny_model: Path, is_stream: bool
) -> None:
    cancelled, tokens = engine["requests_cancelled_total"], engine["completion_tokens_total"]
    with RawStream(server.port, "/completions", body(tiny_model, stream=is_stream, prompt=LONG)) as stream:
        wait_until(lambda: engine["requests_running"] == 1)
        if is_stream:
            assert stream.read_head()[0] == 200
    wait_until(lambda: engine.num_in_flight() == 0)
    assert engine["requests_cancelled_total"] == cancelled + 1
    assert engine["completion_tokens_total"] == tokens


@pytest.mark.parametrize("is_stream", [True, False], ids=["stream", "one-shot"])
def test_leaving_in_the_queue(
    server: ServerProcess, engine: Engine, tiny_model: Path, is_stream: bool
) -> None:
    cancelled, prompts = engine["requests_cancelled_total"], engine["prompt_tokens_total"]
    with RawStream(server.port, "/completions", body(tiny_model, stream=True)) as first:
        lines = first.lines() if first.read_head()[0] == 200 else iter(())
        assert next(lines).startswith("data: {")
        started = engine["prompt_tokens_total"]
        assert started > prompts
        with ExitStack() as leaving:
            for _ in range(2):
                waiting = RawStream(server.port, "/completions", body(tiny_model, stream=is_stream))
                leaving.enter_context(waiting)
                if is_stream:
                    # Accepted into the queue: the head is there before the turn has come.
                    assert waiting.read_head()[0] == 200
            wait_until(lambda: engine["requests_waiting"] == 2)
        wait_until(lambda: engine["requests_waiting"] == 0)
        assert engine["requests_cancelled_total"] == cancelled + 2
        assert engine["prompt_tokens_total"] == started  # they never ran
    wait_until(lambda: engine.num_in_flight() == 0)


def test_many_that_leave_at_once_leave_nothing_behind(
    server: ServerProcess, engine: Engine, tiny_model: Path
) -> None:
    cancelled = engine["requests_cancelled_total"]
    for number in range(20):
        with RawStream(server.port, "/completions", body(tiny_model, stream=number % 2 == 0)):
            pass
    wait_until(
        lambda: engine.num_in_flight() == 0 and read_metrics(server.port)["llmserve_http_requests_open"] == 1
    )
    # Some were gone before they reached the engine at all.
    assert cancelled <= engine["requests_cancelled_total"] <= cancelled + 20
    answer = post(server.port, "/completions", body(tiny_model, stream=False, max_tokens=2))
    assert answer.status == 200
