"""Calls of a named session that another client cancels, whatever API they came through."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from serving import Answer, Llamatik, RawStream, Server, post, read_metrics, serve_in_process, wait_until
from serving.openai_requests import user

SESSION = {"X-LLMServe-Session": "shared"}
MESSAGE = "the call was cancelled in its session"

# Many thousand tokens: nothing of this ends by itself while a test runs.
LONG = {"type": "array", "items": {"type": "integer"}, "minItems": 1900}
PARAMETERS = {"type": "object", "properties": {"a": LONG}, "required": ["a"]}
TOOL = {"type": "function", "function": {"name": "count", "parameters": PARAMETERS}}


@pytest.fixture(scope="module")
def running(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    env = {"LLMSERVE_CONTEXT_LENGTH": "30000"}
    with serve_in_process(tmp_path_factory.mktemp("server"), tiny_model, env=env) as running:
        yield running


@pytest.fixture
def api(running: Server, tiny_model: Path) -> Iterator[Llamatik]:
    api = Llamatik(running)
    api.init(tiny_model)
    api.ok("session/reset", {"sessionId": "shared"})
    yield api
    assert read_metrics(running.port)[f'llmserve_requests_running{{model="{tiny_model.stem}"}}'] == 0


def cancel(api: Llamatik) -> None:
    api.ok("cancel", {"sessionId": "shared"})


def bodies(model: Path) -> dict[str, dict[str, Any]]:
    """A long request to each of the routes whose dialect has no word for a cancelled end."""
    name = model.stem
    raw = {"prompt": "sea", "ignore_eos": True}
    return {
        "/v1/chat/completions": {"model": name, "messages": user("sea"), "ignore_eos": True},
        "/v1/responses": {
            "model": name,
            "input": "sea",
            "text": {"format": {"type": "json_schema", "name": "a", "schema": LONG}},
        },
        "/v1/messages": {
            "model": name,
            "messages": user("sea"),
            "output_config": {"format": {"type": "json_schema", "schema": LONG}},
        },
        "/v1/completions": {"model": name, "max_tokens": 25_000, **raw},
        "/completion": {"model": name, "n_predict": 25_000, **raw},
    }


ROUTES = list(bodies(Path("a.gguf")))
KINDS = {"/v1/messages": "conflict_error"}


def kind_of(error: dict[str, Any]) -> Any:
    """What kind of error it is, in the words of its dialect."""
    return error.get("code", error["type"])


def completion(model: Path) -> dict[str, Any]:
    """A long request in llamacpp-server's dialect, whose errors are texts."""
    return {"model": str(model), "prompt": "sea", "max_tokens": 25_000}


def error_of(lines: Iterator[str]) -> dict[str, Any]:
    """The error with which a stream ends."""
    *_, last = (line for line in lines if line.startswith("data:"))
    error: dict[str, Any] = json.loads(last.removeprefix("data: "))["error"]
    return error


def test_a_turn_is_cancelled_in_its_second_segment(running: Server, api: Llamatik, tiny_model: Path) -> None:
    body = {
        "model": tiny_model.stem,
        "messages": user("sea"),
        "tools": [TOOL],
        "tool_choice": "required",
        "stream": True,
    }
    with RawStream(running.port, "/v1/chat/completions", body, headers=SESSION) as stream:
        assert stream.read_head()[0] == 200
        lines = stream.lines()
        # The name was the first segment; the arguments are the second.
        next(line for line in lines if '"arguments":"[' in line or '"arguments":"{' in line)
        cancel(api)
        assert error_of(lines)["message"] == MESSAGE


@pytest.mark.parametrize("route", ROUTES)
def test_a_cancelled_stream_ends_with_an_error(
    running: Server, api: Llamatik, tiny_model: Path, route: str
) -> None:
    body = {**bodies(tiny_model)[route], "stream": True}
    number = f"late{ROUTES.index(route)}"
    headers = {**SESSION, "X-Request-ID": number}
    with RawStream(running.port, route, body, headers=headers) as stream:
        assert stream.read_head()[0] == 200
        lines = stream.lines()
        next(line for line in lines if "delta" in line or '"text":"' in line or '"content":"' in line)
        cancel(api)
        error = error_of(lines)
        assert (error["message"], kind_of(error)) == (MESSAGE, KINDS.get(route, "call_cancelled"))
    # The status was 200: nothing else would tell the operator.
    running.wait_for_log(f"request {number} failed after its answer began: {MESSAGE}\n")
    assert read_metrics(running.port)['llmserve_http_late_errors_total{status="409"}'] >= 1


@pytest.mark.parametrize("route", ROUTES)
def test_a_cancelled_one_shot_is_an_error(
    running: Server, api: Llamatik, tiny_model: Path, route: str
) -> None:
    label = f'llmserve_requests_running{{model="{tiny_model.stem}"}}'
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(post, running.port, route, bodies(tiny_model)[route], headers=SESSION)
        wait_until(lambda: read_metrics(running.port)[label] == 1)
        cancel(api)
        refused = answer.result()
    assert (refused.status, kind_of(refused.json["error"])) == (409, KINDS.get(route, "call_cancelled"))
    # OpenAI's and Anthropic's clients would send it again.
    assert refused.header("x-should-retry") == "false"


def test_a_cancelled_completion_of_llamacpp_server_is_an_error(
    running: Server, api: Llamatik, tiny_model: Path
) -> None:
    body = completion(tiny_model)
    with RawStream(running.port, "/completions", {**body, "stream": True}, headers=SESSION) as stream:
        assert stream.read_head()[0] == 200
        lines = stream.lines()
        next(line for line in lines if '"tokens"' in line)
        cancel(api)
        assert [line for line in lines if line and '"tokens"' not in line] == [
            "event: error",
            f'data: "{MESSAGE}"',
        ]
    label = f'llmserve_requests_running{{model="{tiny_model.stem}"}}'
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(post, running.port, "/completions", body, headers=SESSION)
        wait_until(lambda: read_metrics(running.port)[label] == 1)
        cancel(api)
        refused = answer.result()
    assert (refused.status, refused.json) == (409, {"error": MESSAGE})


def test_calls_that_wait_behind_a_turn_are_cancelled_too(
    running: Server, api: Llamatik, tiny_model: Path
) -> None:
    turn = {**bodies(tiny_model)["/v1/chat/completions"], "stream": True}
    waiting = {
        **bodies(tiny_model),
        "/completions": completion(tiny_model),
        f"/v1/generate/{tiny_model.stem}": {"prompt": "sea", "max_new_tokens": 25_000},
        "/v1/generation/continue": {"prompt": "sea", "maxTokens": 25_000},
    }
    with ExitStack() as stack:
        stream = stack.enter_context(RawStream(running.port, "/v1/chat/completions", turn, headers=SESSION))
        assert stream.read_head()[0] == 200
        lines = stream.lines()
        next(lines)
        pool = stack.enter_context(ThreadPoolExecutor(len(waiting)))
        answers = {
            route: pool.submit(post, running.port, route, body, headers=SESSION)
            for route, body in waiting.items()
        }

        def are_over() -> bool:
            # Those that were not there yet are cancelled the next time.
            cancel(api)
            return all(answer.done() for answer in answers.values())

        wait_until(are_over)
        assert error_of(lines)["message"] == MESSAGE
        made: dict[str, Answer] = {route: answer.result() for route, answer in answers.items()}
    continued = made.pop("/v1/generation/continue")
    assert (continued.status, continued.json["finishReason"]) == (200, "cancelled")
    sie = made.pop(f"/v1/generate/{tiny_model.stem}")
    assert (sie.status, sie.json["error"]["code"]) == (503, "generation_cancelled")
    assert {answer.status for answer in made.values()} == {409}
