"""Streams that wait, and streams beside heavy requests."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from serving import RawStream, get, post, serve

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
