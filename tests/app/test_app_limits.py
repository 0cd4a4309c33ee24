"""Bodies over the limit, full queues, unknown routes."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from serving import Answer, RawStream, ServerProcess, get, post, serve_in_process, wait_until
from serving.openai_requests import MODEL

MAX_BODY_BYTES = 200_000  # as the fixture `server` sets it

pytestmark = pytest.mark.model


def test_a_declared_body_over_the_limit_is_refused_before_it_is_sent(server: ServerProcess) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as sock:
        head = f"POST /completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {2 * 10**9}\r\n\r\n"
        sock.sendall(head.encode())
        answer = ""
        while not answer.endswith("}"):
            answer += sock.recv(65536).decode()
    assert answer.startswith("HTTP/1.1 413 ")
    assert f'{{"error":"the body exceeds the limit of {MAX_BODY_BYTES} bytes"}}' in answer


def test_a_chunked_body_over_the_limit_is_refused_while_it_comes(server: ServerProcess) -> None:
    chunk = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as sock:
        head = "POST /models/load HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        sock.sendall(head.encode())
        for _ in range(MAX_BODY_BYTES // 0x8000 + 1):  # and no last chunk
            sock.sendall(chunk)
        assert sock.recv(65536).startswith(b"HTTP/1.1 413 ")


def test_a_body_just_below_the_limit_is_read(server: ServerProcess) -> None:
    answer = post(server.port, "/completions", b" " * (MAX_BODY_BYTES - 2) + b"{}")
    assert (answer.status, answer.json) == (400, {"error": "model is required"})
    answer = post(server.port, "/completions", b" " * (MAX_BODY_BYTES - 1) + b"{}")
    assert answer.status == 413


@pytest.mark.parametrize(
    "route",
    [
        "/completions",
        "/models/load",
        "/v1/generation/generateJson",
        "/v1/generation/session/reset",
        f"/v1/generate/{MODEL}",
        "/v1/chat/completions",
        "/v1/responses",
        "/v1/messages",
        "/v1/completions",
        "/v1/embeddings",
        "/completion",
        "/tokenize",
    ],
)
def test_a_body_that_is_nested_too_deeply_is_400(server: ServerProcess, route: str) -> None:
    for depth in (200, 1000, 5000):
        answer = post(server.port, route, f'{{"x":{"[" * depth}{"]" * depth}}}'.encode())
        assert answer.status == 400
        assert "at most 128 levels" in answer.text or "depth limit" in answer.text


def test_as_deep_as_bodies_may_be(server: ServerProcess) -> None:
    deep = "[" * 100 + "]" * 100
    call = f'{{"function":{{"name":"f","arguments":{{"a":{deep}}}}}}}'
    turns = f'{{"role":"user","content":"a"}},{{"role":"assistant","tool_calls":[{call}]}}'
    body = f'{{"model":"{MODEL}","max_tokens":1,"messages":[{turns},{{"role":"user","content":"b"}}]}}'
    assert post(server.port, "/v1/chat/completions", body.encode()).status == 200
    schema = '{"items":' * 100 + "{}" + "}" * 100
    wanted = f'{{"type":"json_schema","json_schema":{{"schema":{schema}}}}}'
    body = f'{{"model":"{MODEL}","max_tokens":300,"prompt":"a","response_format":{wanted}}}'
    assert post(server.port, "/v1/completions", body.encode()).status == 200


def begun_upload(port: int, num_bytes: int) -> socket.socket:
    """A request that declares a body twice as large as what it sends of it."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=120)
    head = f"POST /completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {2 * num_bytes}\r\n\r\n"
    sock.sendall(head.encode() + b"{" + b" " * (num_bytes - 1))
    return sock


def test_a_body_that_does_not_arrive_is_408_and_the_connection_ends(tiny_model: Path, tmp_path: Path) -> None:
    env = {"LLMSERVE_BODY_TIMEOUT_S": "1"}
    with serve_in_process(tmp_path, tiny_model, env=env) as server, begun_upload(server.port, 50) as sock:
        answer = b""
        while received := sock.recv(65536):
            answer += received
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert answer.endswith(b'{"error":"the body did not arrive within 1 s"}')


def test_bodies_that_are_too_large_together_are_503_with_a_hint(tiny_model: Path, tmp_path: Path) -> None:
    env = {"LLMSERVE_MAX_BODY_BYTES": "200000", "LLMSERVE_MAX_BODIES_BYTES": "200000"}
    with serve_in_process(tmp_path, tiny_model, env=env) as server:
        large = b"{}" + b" " * 150_000
        assert post(server.port, "/completions", large).status == 400
        with begun_upload(server.port, 90_000):
            wait_until(lambda: post(server.port, "/completions", large).status == 503)
            refused = post(server.port, "/v1/chat/completions", large)
            assert (refused.status, refused.header("retry-after")) == (503, "1")
            assert refused.json["error"]["code"] == "bodies_full"
            # What is small still passes.
            assert post(server.port, "/completions", b"{}").status == 400
        # The client has left.
        wait_until(lambda: post(server.port, "/completions", large).status == 400)


def test_unknown_routes_and_methods(server: ServerProcess) -> None:
    for path in ("/nope", "/health/", "/completions/x", "//", "/docs/../etc"):
        answer = get(server.port, path)
        assert (answer.status, answer.json) == (404, {"error": "no such route"})
    answer = get(server.port, "/completions")
    assert answer.status == 405
    assert answer.header("allow") == "POST"
    assert answer.json == {"error": "method GET is not allowed here, only POST"}
    answer = post(server.port, "/health", {})
    assert answer.status == 405
    assert answer.header("allow") == "GET, HEAD"
    assert get(server.port, "/health", method="HEAD").status == 200
    assert get(server.port, "/health", method="DELETE").status == 405


def test_a_full_queue_is_503_with_a_hint_and_drains(model_path: Path, tmp_path: Path) -> None:
    env = {"LLMSERVE_MAX_SEQUENCES": "1", "LLMSERVE_MAX_QUEUED_REQUESTS": "2"}
    with serve_in_process(tmp_path, model_path, env=env) as server:
        body = {"model": str(model_path), "prompt": "Once", "max_tokens": 1900, "stream": True}
        with RawStream(server.port, "/completions", body) as running:
            running.read_head()
            next(running.lines())

            def ask(number: int) -> Answer:
                return post(server.port, "/completions", {**body, "max_tokens": 2, "stream": number % 2 == 0})

            with ThreadPoolExecutor(12) as pool:
                asked = [pool.submit(ask, number) for number in range(12)]
                wait_until(lambda: sum(one.done() for one in asked) == 10)
                assert get(server.port, "/health").json["models"][0]["state"] == "busy"
                running.close()
                answers = [one.result() for one in asked]
        assert sorted(answer.status for answer in answers) == [200] * 2 + [503] * 10
        for answer in answers:
            if answer.status == 503:
                assert int(answer.header("retry-after") or "0") >= 1
                assert "queue is full" in answer.json["error"]
