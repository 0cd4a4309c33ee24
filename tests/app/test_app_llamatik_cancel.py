"""The end of calls before their end: `cancel`, clients that leave, a server that stops."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from serving import (
    Answer,
    Llamatik,
    Server,
    post,
    read_metrics,
    serve_in_process,
    serve_with_uvicorn,
    wait_until,
)
from serving.llamatik import joined, parsed, rest

CONTEXT = {"LLMSERVE_CONTEXT_LENGTH": "20000"}
LONG_PROMPT = "word " * 3900
STORY = "Once upon a time"
ENDLESS: dict[str, Any] = {"prompt": STORY, "maxTokens": 19_000, "temperature": 0}


@pytest.fixture(scope="module")
def running(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One sequence, so that a second request waits."""
    env = {**CONTEXT, "LLMSERVE_MAX_SEQUENCES": "1", "LLMSERVE_PREFIX_CACHE": "false"}
    with serve_in_process(tmp_path_factory.mktemp("server"), tiny_model, env=env) as running:
        yield running


class Engine:
    """The engine's metrics."""

    def __init__(self, running: Server, model: Path) -> None:
        self._port = running.port
        self._label = f'{{model="{model.stem}"}}'

    def __getitem__(self, name: str) -> float:
        return read_metrics(self._port)[f"llmserve_{name}{self._label}"]

    def is_idle(self) -> bool:
        names = ("requests_running", "requests_waiting", "requests_preparing")
        return not any(self[name] for name in names)


@pytest.fixture
def engine(running: Server, tiny_model: Path) -> Engine:
    return Engine(running, tiny_model)


@pytest.fixture
def api(running: Server, tiny_model: Path, engine: Engine) -> Iterator[Llamatik]:
    api = Llamatik(running)
    api.init(tiny_model)
    api.ok("session/reset")
    yield api
    wait_until(engine.is_idle)
    assert api.post("generate", {"prompt": "Once", "maxTokens": 1}).status == 200


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def cancelled(future: Future[Answer]) -> dict[str, Any]:
    answer = future.result()
    assert answer.status == 200, answer.text
    made: dict[str, Any] = answer.json
    assert made["finishReason"] == "cancelled"
    return made


def test_a_one_shot_that_generates_answers_with_its_text_so_far(
    api: Llamatik, engine: Engine, pool: ThreadPoolExecutor
) -> None:
    before, tokens = engine["requests_cancelled_total"], engine["completion_tokens_total"]
    answer = pool.submit(api.post, "generate", ENDLESS)
    wait_until(lambda: engine["completion_tokens_total"] > tokens + 3)
    api.ok("cancel")
    made = cancelled(answer)
    assert made["text"] != ""
    assert 3 < made["usage"]["completionTokens"] < 19_000
    wait_until(lambda: engine["requests_cancelled_total"] == before + 1)
    # What was generated is the session.
    further = api.whole("continue", prompt=" and", maxTokens=1)
    assert further["usage"]["promptTokens"] == 1 + sum(
        made["usage"][name] for name in ("promptTokens", "completionTokens")
    )


def test_a_stream_that_generates_ends_with_done(api: Llamatik) -> None:
    with api.open("stream", **ENDLESS) as stream:
        assert stream.read_head()[0] == 200
        lines = stream.lines()
        first = parsed(next(lines))
        api.ok("cancel", {})
        made = [first, *rest(lines)]
    assert made[-1]["finishReason"] == "cancelled"
    assert joined(made) != ""
    assert made[-1]["usage"]["completionTokens"] < 19_000


@pytest.mark.parametrize("route", ["generate", "stream"])
def test_in_the_prompt_phase(api: Llamatik, engine: Engine, pool: ThreadPoolExecutor, route: str) -> None:
    tokens = engine["completion_tokens_total"]
    answer = pool.submit(api.post, route, {**ENDLESS, "prompt": LONG_PROMPT})
    wait_until(lambda: engine["requests_running"] == 1)
    api.ok("cancel")
    if route == "generate":
        assert cancelled(answer)["text"] == ""
    else:
        assert answer.result().text.count("data: ") == 1
        assert '"finishReason":"cancelled"' in answer.result().text
    assert engine["completion_tokens_total"] == tokens


@pytest.mark.parametrize("route", ["generate", "stream", "continue"])
def test_in_the_engines_queue(api: Llamatik, engine: Engine, pool: ThreadPoolExecutor, route: str) -> None:
    with api.open("stream", **ENDLESS, sessionId="busy") as stream:
        stream.read_head()
        lines = stream.lines()
        next(lines)
        waiting = pool.submit(api.post, route, ENDLESS)
        wait_until(lambda: engine["requests_waiting"] == 1)
        api.ok("cancel")
        answer = waiting.result()
        assert answer.status == 200
        assert '"finishReason":"cancelled"' in answer.text
        # The other session's goes on.
        assert parsed(next(lines))["event"] == "delta"


def test_behind_a_call_of_its_own_session(api: Llamatik, engine: Engine, pool: ThreadPoolExecutor) -> None:
    before = engine["requests_cancelled_total"]
    with api.open("stream", **ENDLESS, sessionId="s") as stream:
        stream.read_head()
        lines = stream.lines()
        first = parsed(next(lines))
        behind = [pool.submit(api.post, "continue", {**ENDLESS, "sessionId": "s"}) for _ in range(2)]
        wait_until(lambda: engine["requests_preparing"] == 2)
        api.ok("cancel", {"sessionId": "s"})
        assert joined([first, *rest(lines)]) != ""
        assert [cancelled(one)["text"] for one in behind] == ["", ""]
    wait_until(lambda: engine["requests_cancelled_total"] == before + 3)


def test_only_the_named_session_is_cancelled(api: Llamatik, engine: Engine) -> None:
    with api.open("stream", **ENDLESS) as stream:
        stream.read_head()
        lines = stream.lines()
        next(lines)
        for body in ({"sessionId": "a"}, {"sessionId": "nobody"}):
            api.ok("cancel", body)
        for _ in range(5):
            assert parsed(next(lines))["event"] == "delta"
        api.ok("cancel")
        assert rest(lines)[-1]["finishReason"] == "cancelled"


def test_the_header_names_the_session_too(api: Llamatik) -> None:
    with api.open("stream", **ENDLESS, sessionId="h") as stream:
        stream.read_head()
        lines = stream.lines()
        next(lines)
        answer = api.post("cancel", headers={"X-LLMServe-Session": "h"})
        assert (answer.status, answer.json) == (200, {"ok": True})
        assert rest(lines)[-1]["finishReason"] == "cancelled"


def test_a_call_of_another_dialect_in_the_same_session(
    api: Llamatik, running: Server, engine: Engine, tiny_model: Path, pool: ThreadPoolExecutor
) -> None:
    body = {"model": str(tiny_model), "prompt": "Once upon a time", "max_tokens": 19_000}
    tokens = engine["completion_tokens_total"]
    headers = {"X-LLMServe-Session": "both"}
    answer = pool.submit(lambda: post(running.port, "/completions", body, headers=headers))
    wait_until(lambda: engine["completion_tokens_total"] > tokens + 3)
    api.ok("cancel", {"sessionId": "both"})
    assert answer.result().status == 409
    assert "cancelled" in answer.result().json["error"]


def test_cancel_with_nothing_to_cancel(api: Llamatik) -> None:
    for body in (None, {}, {"sessionId": "x"}):
        api.ok("cancel", body)


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("generate", {"prompt": STORY}),
        ("stream", {"prompt": STORY}),
        ("generateWithContext", {"userPrompt": STORY}),
        ("continueStream", {"prompt": STORY}),
    ],
)
def test_clients_that_leave(api: Llamatik, engine: Engine, route: str, body: dict[str, Any]) -> None:
    before, tokens = engine["requests_cancelled_total"], engine["completion_tokens_total"]
    limits = {name: value for name, value in ENDLESS.items() if name != "prompt"}
    with api.open(route, **limits, **body):
        wait_until(lambda: engine["completion_tokens_total"] > tokens)
    wait_until(engine.is_idle)
    wait_until(lambda: engine["requests_cancelled_total"] == before + 1)


def test_clients_that_leave_in_the_queue(api: Llamatik, engine: Engine) -> None:
    with api.open("stream", **ENDLESS, sessionId="first") as stream:
        stream.read_head()
        lines = stream.lines()
        next(lines)
        before, prompts = engine["requests_cancelled_total"], engine["prompt_tokens_total"]
        with ExitStack() as leaving:
            for name in ("first", "second", "second"):
                leaving.enter_context(api.open("continue", **ENDLESS, sessionId=name))
            # One waits for a slot, two for their sessions.
            wait_until(lambda: engine["requests_waiting"] + engine["requests_preparing"] == 3)
        wait_until(lambda: engine["requests_waiting"] + engine["requests_preparing"] == 0)
        # Counted a moment after its place is free.
        wait_until(lambda: engine["requests_cancelled_total"] == before + 3)
        assert engine["prompt_tokens_total"] == prompts
    wait_until(engine.is_idle)


def test_a_server_that_stops_says_so(tiny_model: Path, tmp_path: Path) -> None:
    with serve_with_uvicorn(tmp_path, env=CONTEXT) as running, ThreadPoolExecutor(1) as pool:
        running.wait_until_listening()
        api = Llamatik(running)
        api.init(tiny_model)
        with api.open("stream", **ENDLESS) as stream:
            stream.read_head()
            lines = stream.lines()
            next(lines)
            one_shot = pool.submit(api.post, "generate", {**ENDLESS, "sessionId": "x"})
            wait_until(lambda: read_metrics(running.port)["llmserve_http_requests_open"] == 3)
            running.signal(signal.SIGTERM)
            message = "the request was cancelled: the server is stopping"
            assert rest(lines)[-1] == {"event": "error", "message": message}
            answer = one_shot.result()
            assert (answer.status, answer.json) == (503, {"error": message})
            assert answer.header("retry-after") == "5"
        running.wait()
        assert "Traceback" not in running.log


def test_waiting_for_the_sessions_turn_does_not_silence_a_stream(tiny_model: Path, tmp_path: Path) -> None:
    with serve_in_process(tmp_path, tiny_model, env={**CONTEXT, "LLMSERVE_SSE_PING_S": "0.1"}) as running:
        api = Llamatik(running)
        api.init(tiny_model)
        with api.open("stream", **ENDLESS) as first:
            first.read_head()
            next(first.lines())
            with api.open("continueStream", prompt=" and", maxTokens=2, temperature=0) as second:
                assert second.read_head()[0] == 200
                lines = second.lines()
                assert [next(lines), next(lines)] == [": ping", ": ping"]
                api.ok("cancel")
                assert rest(lines)[-1]["finishReason"] == "cancelled"
