"""The end of a server: draining, grace, the second signal, and uvicorn's own way (C098)."""

from __future__ import annotations

import json
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from serving import (
    RawStream,
    get,
    post,
    read_metrics,
    serve,
    serve_with_small_buffers,
    serve_with_uvicorn,
    wait_until,
)

pytestmark = [pytest.mark.model, pytest.mark.slow]


def body(model: Path, max_tokens: int, *, stream: bool = True) -> dict[str, Any]:
    return {"model": str(model), "prompt": "Once upon a time", "max_tokens": max_tokens, "stream": stream}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_draining_refuses_new_requests_and_lets_running_ones_finish(
    model_path: Path, tmp_path: Path, number: signal.Signals
) -> None:
    with serve(tmp_path, model_path, "--grace-s", "100") as server:
        server.wait_until_ready()
        with RawStream(server.port, "/completions", body(model_path, 80)) as stream:
            assert stream.read_head()[0] == 200
            lines = stream.lines()
            next(lines)
            server.signal(number)
            wait_until(lambda: get(server.port, "/health").status == 503)
            assert get(server.port, "/health").json["status"] == "draining"
            for refused in (
                post(server.port, "/completions", body(model_path, 1)),
                post(server.port, "/models/load", {"path": str(model_path)}),
            ):
                assert refused.status == 503
                assert "draining" in refused.json["error"]
                assert refused.header("retry-after") == "5"
            rest = list(lines)
        assert rest[-1] == "data: [DONE]"
        assert json.loads(rest[-2].removeprefix("data: "))["tokens"] in (80, len(rest))
        assert server.wait() == 0


def test_after_the_grace_time_running_requests_end_with_an_error_event(
    model_path: Path, tmp_path: Path
) -> None:
    with serve(tmp_path, model_path, "--grace-s", "0.2") as server:
        server.wait_until_ready()
        with RawStream(server.port, "/completions", body(model_path, 1900)) as stream:
            stream.read_head()
            lines = stream.lines()
            next(lines)
            server.signal(signal.SIGTERM)
            rest = list(lines)
        assert rest[-2:] == ["event: error", 'data: "the request was cancelled: the server is stopping"']
        assert "data: [DONE]" not in rest
        assert server.wait() == 0


def test_a_second_signal_cancels_at_once(model_path: Path, tmp_path: Path) -> None:
    with serve(tmp_path, model_path, "--grace-s", "1000") as server:
        server.wait_until_ready()
        with (
            RawStream(server.port, "/completions", body(model_path, 1900)) as stream,
            RawStream(server.port, "/completions", body(model_path, 1900, stream=False)) as one_shot,
        ):
            stream.read_head()
            lines = stream.lines()
            next(lines)
            wait_until(lambda: read_metrics(server.port)["llmserve_http_requests_open"] == 3)
            server.signal(signal.SIGINT)
            wait_until(lambda: get(server.port, "/health").status == 503)
            server.signal(signal.SIGINT)
            assert list(lines)[-2] == "event: error"
            status, headers = one_shot.read_head()
            assert status == 503
            assert headers["retry-after"] == "5"
        assert server.wait() == 0


def test_a_client_that_does_not_read_does_not_hold_the_end_up(tiny_model: Path, tmp_path: Path) -> None:
    env = {
        "LLMSERVE_MODEL": str(tiny_model),
        "LLMSERVE_CONTEXT_LENGTH": "6000",
        "LLMSERVE_STALL_S": "1000",
        "LLMSERVE_GRACE_S": "1",
    }
    with serve_with_small_buffers(tmp_path, env=env) as server:
        server.wait_until_ready()
        generate = {**body(tiny_model, 5_000), "prompt": "sea"}
        label = f'{{model="{tiny_model.stem}"}}'
        with RawStream(server.port, "/completions", generate, receive_buffer=4096) as stream:
            stream.read_head()
            # More than all buffers hold has been generated.
            wait_until(lambda: read_metrics(server.port)[f"llmserve_completion_tokens_total{label}"] > 2500)
            server.signal(signal.SIGTERM)
            assert server.wait() == -signal.SIGTERM


def test_signals_while_the_model_is_being_loaded(model_path: Path, tmp_path: Path) -> None:
    with serve(tmp_path, model_path) as server:
        server.wait_until_listening()
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        assert "Traceback" not in server.log


def test_under_uvicorn_running_requests_end_when_its_signal_comes(model_path: Path, tmp_path: Path) -> None:
    with serve_with_uvicorn(tmp_path, env={"LLMSERVE_MODEL": str(model_path)}) as server:
        server.wait_until_ready()
        with (
            RawStream(server.port, "/completions", body(model_path, 1900)) as stream,
            RawStream(server.port, "/completions", body(model_path, 1900, stream=False)) as one_shot,
        ):
            stream.read_head()
            lines = stream.lines()
            next(lines)
            wait_until(lambda: read_metrics(server.port)["llmserve_http_requests_open"] == 3)
            server.signal(signal.SIGTERM)
            assert list(lines)[-2:] == [
                "event: error",
                'data: "the request was cancelled: the server is stopping"',
            ]
            assert one_shot.read_head()[0] == 503
        assert server.wait() == -signal.SIGTERM  # uvicorn's own way
        assert "Traceback" not in server.log


def test_a_load_under_uvicorn_ends_with_the_signal(model_path: Path, tmp_path: Path) -> None:
    with serve_with_uvicorn(tmp_path, app="serving.endless_load:app") as server:
        server.wait_until_listening()
        with RawStream(server.port, "/models/load", {"path": str(model_path)}) as stream:
            stream.read_head()
            server.signal(signal.SIGTERM)
            rest = list(stream.lines())
        # The probe of the file does not end by itself.
        assert rest == [
            'data: {"progress":0.01}',
            "event: error",
            'data: "the request was cancelled: the server is stopping"',
        ]
        assert server.wait() == -signal.SIGTERM
        assert "Traceback" not in server.log


def test_schemas_that_are_being_compiled_do_not_hold_the_end_up(tiny_model: Path, tmp_path: Path) -> None:
    """A few are compiled, for a second or more each, and many more wait."""
    with serve(tmp_path, tiny_model, "--grace-s", "0.2") as server, ExitStack() as streams:
        server.wait_until_ready()
        for number in range(120):
            members = {f"p{member}": {"enum": [number + member]} for member in range(1500)}
            schema = {"type": "object", "additionalProperties": False, "properties": members}
            call = {"prompt": "x", "n_predict": 200, "json_schema": schema}
            streams.enter_context(RawStream(server.port, "/completion", call))
        wait_until(lambda: read_metrics(server.port)['llmserve_requests_preparing{model="llama"}'] >= 60)
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        assert "Traceback" not in server.log
