"""Streams that wait, and streams beside heavy requests."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from serving import RawStream, ServerProcess, get, post, serve
from serving.openai_requests import MODEL

pytestmark = pytest.mark.model


def test_waiting_streams_get_comments(model_path: Path, tmp_path: Path) -> None:
    arguments = ("--max-sequences", "1", "--sse-ping-s", "0.1")
    with serve(tmp_path, model_path, *arguments) as server:
        server.wait_until_ready()
        body: dict[str, Any] = {
            "model": str(model_path),
            "prompt": "Once",
            "max_tokens": 1900,
            "stream": True,
        }
        with RawStream(server.port, "/completions", body) as running:
            running.read_head()
            next(running.lines())
            with RawStream(server.port, "/completions", {**body, "max_tokens": 2}) as waiting:
                assert waiting.read_head()[0] == 200
                lines = waiting.lines()
                assert [next(lines), next(lines)] == [": ping", ": ping"]
                running.close()
                rest = [line for line in lines if line != ": ping"]
        assert rest[-1] == "data: [DONE]"
        assert len(rest) == 3


SESSION = {"X-LLMServe-Session": "s"}
LIMITS = {"/v1/responses": "max_output_tokens", "/completion": "n_predict"}


@pytest.fixture(scope="module")
def pinging(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose quiet streams get comments ten times a second."""
    with serve(tmp_path_factory.mktemp("server"), model_path, "--sse-ping-s", "0.1") as server:
        server.wait_until_ready()
        yield server


@contextmanager
def held_session(server: ServerProcess) -> Iterator[RawStream]:
    """A turn that runs in the session; leaving ends it."""
    messages = [{"role": "user", "content": "Count."}]
    body = {"model": MODEL, "messages": messages, "max_tokens": 1900, "ignore_eos": True, "stream": True}
    with RawStream(server.port, "/v1/chat/completions", body, headers=SESSION) as running:
        assert running.read_head()[0] == 200
        next(running.lines())
        yield running


@pytest.mark.parametrize(
    ("path", "fields", "last"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}]}, "data: [DONE]"),
        ("/v1/responses", {"input": "Hi"}, "response.incomplete"),
        ("/v1/messages", {"messages": [{"role": "user", "content": "Hi"}]}, "message_stop"),
        ("/v1/completions", {"prompt": "Hi"}, "data: [DONE]"),
        ("/completion", {"prompt": "Hi"}, '"stop":true'),
        (f"/v1/generate/{MODEL}", {"prompt": "Hi", "max_new_tokens": 2}, "data: [DONE]"),
    ],
)
def test_streams_that_wait_for_their_session_get_pings(
    pinging: ServerProcess, path: str, fields: dict[str, Any], last: str
) -> None:
    limit = {} if "max_new_tokens" in fields else {LIMITS.get(path, "max_tokens"): 2}
    model = {} if path.startswith("/v1/generate") else {"model": MODEL}
    body = {**model, **fields, **limit, "stream": True}
    ping = "event: ping" if path == "/v1/messages" else ": ping"
    with held_session(pinging) as running, RawStream(pinging.port, path, body, headers=SESSION) as waiting:
        assert waiting.read_head()[0] == 200
        lines = waiting.lines()
        for _ in range(2):
            while next(lines) != ping:
                pass
        running.close()
        rest = [line for line in lines if line != ping]
    assert last in rest[-1]


def test_time_limits_of_a_request_pass_while_it_waits_for_its_session(pinging: ServerProcess) -> None:
    path = f"/v1/generate/{MODEL}"
    body = {"prompt": "Hi", "max_new_tokens": 2, "options": {"first_chunk_timeout_s": 0.5}}
    with held_session(pinging):
        answer = post(pinging.port, path, body, headers=SESSION)
        assert answer.status == 504
        with RawStream(pinging.port, path, {**body, "stream": True}, headers=SESSION) as waiting:
            assert waiting.read_head()[0] == 200
            end = [line for line in waiting.lines() if line.startswith("data: {")][-1]
            assert '"code":"first_chunk_timeout"' in end


def test_a_huge_prompt_is_refused_while_a_stream_flows_and_health_answers(
    model_path: Path, tmp_path: Path
) -> None:
    with serve(tmp_path, model_path) as server, ThreadPoolExecutor(1) as pool:
        server.wait_until_ready()
        body: dict[str, Any] = {
            "model": str(model_path),
            "prompt": "Once",
            "max_tokens": 1900,
            "stream": True,
        }
        with RawStream(server.port, "/completions", body) as stream:
            stream.read_head()
            lines = stream.lines()
            next(lines)
            huge = pool.submit(
                post, server.port, "/completions", {**body, "prompt": "lorem ipsum " * 350_000}
            )
            num_tokens = 0
            while not huge.done():
                assert next(lines).startswith("data: {")
                num_tokens += 1
                assert get(server.port, "/health").status == 200
            answer = huge.result()
        assert answer.status == 400
        assert "the context length of 2048 tokens" in answer.json["error"]
        assert num_tokens > 0
