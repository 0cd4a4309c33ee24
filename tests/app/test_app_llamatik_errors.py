"""What the routes of `/v1/generation` refuse: before `init`, bodies, fields, paths, prompts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llmserve.server.application import Application
from llmserve.server.settings import parse_settings
from serving import Answer, Llamatik, ServerProcess, post, serve_in_process

pytestmark = pytest.mark.model

CONTEXT = {"systemPrompt": "", "contextBlock": "", "userPrompt": "u"}
BODIES: dict[str, dict[str, Any]] = {
    "generate": {"prompt": "p"},
    "generateWithContext": CONTEXT,
    "generateJson": {"prompt": "p", "jsonSchema": "{}"},
    "generateJsonWithContext": CONTEXT,
    "continue": {"prompt": "p"},
    "stream": {"prompt": "p"},
    "streamWithContext": CONTEXT,
    "jsonStream": {"prompt": "p"},
    "jsonStreamWithContext": CONTEXT,
    "continueStream": {"prompt": "p"},
    "session/reset": {},
    "session/save": {"path": "s.bin"},
    "session/load": {"path": "s.bin"},
    "model/applyChatTemplate": {"messages": [{"role": "user", "content": "x"}]},
    "mtp/init": {"modelPath": "m.gguf"},
}
GENERATING = list(BODIES)[:10]
PROMPTED = [route for route, body in BODIES.items() if "prompt" in body]


@pytest.fixture(scope="module")
def fresh(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Llamatik]:
    """A server whose model is loaded, but not in this dialect."""
    with serve_in_process(tmp_path_factory.mktemp("fresh"), model_path) as running:
        yield Llamatik(running)


@pytest.fixture(scope="module")
def api(server: ServerProcess, model_path: Path) -> Llamatik:
    api = Llamatik(server)
    api.init(model_path)
    return api


def refused(answer: Answer, status: int) -> str:
    assert answer.status == status, answer.text
    assert answer.header("content-type") == "application/json"
    assert answer.header("x-request-id")
    assert set(answer.json) == {"error"}
    error: str = answer.json["error"]
    return error


@pytest.mark.parametrize("route", BODIES)
def test_before_init_there_is_no_model(fresh: Llamatik, route: str) -> None:
    assert refused(fresh.post(route, BODIES[route]), 409) == "no model is loaded here: call init first"


@pytest.mark.parametrize("route", ["model/finetuneType", "model/chatTemplate"])
def test_before_init_there_is_no_metadata(fresh: Llamatik, route: str) -> None:
    assert "init" in refused(fresh.get(route), 409)


def test_what_works_without_a_model(fresh: Llamatik) -> None:
    for route in ("cancel", "shutdown", "mtp/shutdown"):
        fresh.ok(route)
        fresh.ok(route, {})
        fresh.ok(route, {"sessionId": "a"})
    fresh.ok("params", {})
    assert fresh.get("params").status == 200


@pytest.mark.parametrize("body", [b"[]", b"5", b"null", b"{", b'{"prompt": NaN}', b"\xff\xfe", b'"\\ud800"'])
@pytest.mark.parametrize("route", ["generate", "continueStream", "params", "init", "cancel", "session/reset"])
def test_malformed_bodies(api: Llamatik, route: str, body: bytes) -> None:
    assert "body" in refused(api.post(route, body), 400)


@pytest.mark.parametrize("route", ["init", "params", "session/save", "mtp/init", "model/applyChatTemplate"])
def test_bodies_that_may_not_be_empty(api: Llamatik, route: str) -> None:
    assert "empty body" in refused(api.post(route), 400)


@pytest.mark.parametrize(
    ("route", "field"),
    [
        *((route, "prompt") for route in PROMPTED),
        *((route, "userPrompt") for route in GENERATING if "prompt" not in BODIES[route]),
        ("init", "modelPath"),
        ("session/save", "path"),
        ("session/load", "path"),
        ("mtp/init", "modelPath"),
        ("model/applyChatTemplate", "messages"),
    ],
)
def test_required_fields_are_named(api: Llamatik, route: str, field: str) -> None:
    for body in ({"x": 1}, {field: None}):
        assert refused(api.post(route, body), 400) == f"{field} is required"
    assert refused(api.post(route, {field: 5}), 400).startswith(f"{field} must be a")


@pytest.mark.parametrize("route", GENERATING)
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"temperature": "hot"}, "temperature must be a number, got a string"),
        ({"temperature": True}, "temperature must be a number, got a boolean"),
        ({"maxTokens": 0}, "maxTokens must be at least 1, got 0"),
        ({"maxTokens": -1}, "maxTokens must be at least 1, got -1"),
        ({"topP": 1.5}, "topP must be at most 1, got 1.5"),
        ({"repeatPenalty": 0}, "repeatPenalty: must be a number above 0, got 0"),
        ({"stop": [""]}, "stop: must not contain an empty string"),
        ({"seed": 2**64}, "seed must be at most 18446744073709551615, got 18446744073709551616"),
        ({"sessionId": 5}, "sessionId must be a string, got the number 5"),
        ({"sessionId": "a b"}, "sessionId must be 1 to 128 of A-Z a-z 0-9 . _ -, got 'a b'"),
        ({"sessionId": ""}, "sessionId must be 1 to 128 of A-Z a-z 0-9 . _ -, got ''"),
    ],
)
def test_wrong_fields_are_named(api: Llamatik, route: str, fields: dict[str, Any], message: str) -> None:
    assert refused(api.post(route, {**BODIES[route], **fields}), 400) == message


@pytest.mark.parametrize("value", [b"1e999", b"NaN", b"Infinity", b'"nan"'])
@pytest.mark.parametrize("field", ["temperature", "topP", "minP", "repeatPenalty", "frequencyPenalty"])
def test_numbers_that_are_none(api: Llamatik, field: str, value: bytes) -> None:
    refused(api.post("generate", b'{"prompt":"p","' + field.encode() + b'":' + value + b"}"), 400)
    refused(api.post("params", b'{"' + field.encode() + b'":' + value + b"}"), 400)


def test_the_session_in_body_and_header(api: Llamatik) -> None:
    def ask(header: str, **body: Any) -> Answer:
        fields = {"prompt": "sea", "maxTokens": 1, **body}
        return api.post("generate", fields, headers={"X-LLMServe-Session": header})

    assert ask("a").status == 200
    assert ask("a", sessionId="a").status == 200
    assert refused(ask("a", sessionId="b"), 400) == (
        "sessionId must equal the name in the header X-LLMServe-Session if both are given"
    )
    assert refused(ask("a b"), 400).startswith("X-LLMServe-Session must be 1 to 128 of")
    assert refused(ask("x" * 129), 400).startswith("X-LLMServe-Session must be 1 to 128 of")
    assert ask("x" * 128).status == 200


@pytest.mark.parametrize("route", ["generate", "stream"])
def test_prompts_that_cannot_be(api: Llamatik, route: str) -> None:
    assert refused(api.post(route, {"prompt": ""}), 400).startswith("prompt")
    too_long = refused(api.post(route, {"prompt": "word " * 5000}), 400)
    assert "2048" in too_long
    assert "500" in too_long
    assert api.post(route, {"prompt": " ", "maxTokens": 1}).status == 200


@pytest.mark.parametrize("route", ["generateWithContext", "streamWithContext", "jsonStreamWithContext"])
def test_a_context_without_a_user_turn(api: Llamatik, route: str) -> None:
    body = {"systemPrompt": "S", "contextBlock": "", "userPrompt": ""}
    assert refused(api.post(route, body), 400) == "userPrompt and contextBlock are both empty"


def test_an_empty_body_where_the_document_shows_none(api: Llamatik) -> None:
    assert refused(api.post("jsonStreamWithContext"), 400) == "userPrompt is required"


def test_a_continue_over_the_context_is_refused_and_the_session_stays(api: Llamatik) -> None:
    name = "long-one"
    api.text("generate", prompt="Once upon a time", maxTokens=4, temperature=0, sessionId=name)
    for route in ("continue", "continueStream"):
        body = {"prompt": "word " * 2100, "sessionId": name}
        assert "2048" in refused(api.post(route, body), 400)
    answer = api.whole("continue", prompt=" and", maxTokens=4, temperature=0, sessionId=name)
    assert answer["usage"]["promptTokens"] < 20


def test_what_has_no_effect_is_named(api: Llamatik) -> None:
    answer = api.post("generate", {"prompt": "sea", "maxTokens": 1, "mirostatTau": 2, "foo": "x"})
    assert (answer.header("x-llmserve-ignored") or "").split(", ") == ["mirostatTau", "foo"]
    assert api.post("params", {"foo": 1, "sessionId": "a"}).header("x-llmserve-ignored") == "foo, sessionId"
    assert api.post("shutdown", {"sessionId": "a"}).header("x-llmserve-ignored") == "sessionId"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mirostat", 2),
        ("typicalP", 0.5),
        ("grammar", "root ::= 'a'"),
        ("logitBias", {"1": 5}),
        ("systemPrompt", "x"),
        ("jsonSchema", {}),
        ("guidedJson", {"type": "object"}),
        ("nPredict", 5),
        ("structured_outputs", {"regex": "a"}),
        ("stop_token_ids", [1]),
    ],
)
def test_what_would_change_the_text_is_refused(api: Llamatik, name: str, value: object) -> None:
    for route in ("generate", "stream"):
        assert refused(api.post(route, {"prompt": "sea", "maxTokens": 1, name: value}), 400).startswith(name)
    assert refused(api.post("params", {name: value}), 400).startswith(name)


def test_init_refuses_what_is_no_model(fresh: Llamatik, tmp_path: Path) -> None:
    text = tmp_path / "text.gguf"
    text.write_text("hello world, this is no model")
    for path, reason in ((tmp_path / "missing.gguf", "no such file"), (text, "GGUF"), (tmp_path, "")):
        error = refused(fresh.post("init", {"modelPath": str(path)}), 400)
        assert reason in error
        assert str(tmp_path) not in error
    assert refused(fresh.post("init", {"modelPath": "a\0b"}), 400) == "modelPath is not allowed"
    assert fresh.post("generate", {"prompt": "x"}).status == 409


def test_mtp_of_another_model(api: Llamatik, model_path: Path, tmp_path: Path) -> None:
    api.init(model_path)
    error = refused(api.post("mtp/init", {"modelPath": str(tmp_path / "other.gguf")}), 409)
    assert error == "modelPath must be the path of the loaded model"
    link = tmp_path / "link.gguf"
    link.symlink_to(model_path)
    assert "no head" in refused(api.post("mtp/init", {"modelPath": str(link), "draftLen": 8}), 400)
    assert refused(api.post("mtp/init", {"modelPath": "x", "draftLen": 9}), 400).startswith("draftLen")


def test_paths_stay_in_their_folders(tiny_model: Path, tmp_path: Path) -> None:
    models, sessions = tmp_path / "models", tmp_path / "sessions"
    models.mkdir()
    sessions.mkdir()
    (models / "inside.gguf").write_bytes(tiny_model.read_bytes())
    (models / "out.gguf").symlink_to(tiny_model)
    (sessions / "out").symlink_to(tmp_path)
    env = {"MODELS_DIR": str(models), "SESSIONS_DIR": str(sessions)}
    with serve_in_process(tmp_path, env=env) as running:
        api = Llamatik(running)
        for path in (str(tiny_model), "../models.gguf", "out.gguf", "a/../../x.gguf", "x" * 5000):
            assert refused(api.post("init", {"modelPath": path}), 400) == "modelPath is not allowed"
            assert refused(api.post("mtp/init", {"modelPath": path}), 400) == "modelPath is not allowed"
        api.ok("init", {"modelPath": "inside.gguf"})
        api.text("generate", prompt="sea", maxTokens=2)
        outside = [
            "../x.bin",
            "a/../../x.bin",
            str(tmp_path / "abs.bin"),
            "out/x.bin",
            "out/models/inside.gguf",
            "nul\0",
            "x" * 5000,
        ]
        for route in ("session/save", "session/load"):
            for path in outside:
                assert refused(api.post(route, {"path": path}), 400) == "path is not allowed"
            assert refused(api.post(route, {"path": ""}), 400) == "path is required"
            refused(api.post(route, {"path": "n" * 300}), 400)
        assert sorted(path.name for path in sessions.iterdir()) == ["out"]
        assert not (tmp_path / "x.bin").exists()
        api.ok("session/save", {"path": "..\\x.bin"})
        api.ok("session/save", {"path": "chat.bin"})
        api.ok("session/load", {"path": str(sessions / "chat.bin")})


@pytest.mark.parametrize(
    ("route", "body", "folder"),
    [
        ("init", {"modelPath": "m.gguf"}, "MODELS_DIR"),
        ("mtp/init", {"modelPath": "m.gguf"}, "MODELS_DIR"),
        ("session/save", {"path": "s.bin"}, "SESSIONS_DIR"),
        ("session/load", {"path": "s.bin"}, "SESSIONS_DIR"),
    ],
)
def test_paths_from_elsewhere_need_folders(route: str, body: dict[str, str], folder: str) -> None:
    """The application itself: a test has no address that is not loopback."""
    sent: list[dict[str, Any]] = []

    async def main() -> None:
        messages = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]

        async def receive() -> Any:
            if not messages:
                await asyncio.Event().wait()
            return messages.pop()

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "method": "POST",
            "path": f"/v1/generation/{route}",
            "headers": [(b"host", b"models.example")],
            "server": ("192.0.2.1", 80),
        }
        await Application(parse_settings({"HOME": "/"}), chains_signals=False)(scope, receive, send)

    asyncio.run(main())
    assert sent[0]["status"] == 403
    error = json.loads(sent[1]["body"])["error"]
    assert error == f"paths are accepted from local requests only, unless the server sets {folder}"


def test_bodies_over_the_limit(api: Llamatik) -> None:
    assert "exceeds the limit" in refused(api.post("generate", {"prompt": "x" * 300_000}), 413)


def test_a_full_queue_is_503_with_a_hint(model_path: Path, tmp_path: Path) -> None:
    env = {"LLMSERVE_MAX_SEQUENCES": "1", "LLMSERVE_MAX_QUEUED_REQUESTS": "1"}
    with serve_in_process(tmp_path, model_path, env=env) as running:
        api = Llamatik(running)
        api.init(model_path)
        endless = {"prompt": "Once", "maxTokens": 1900, "stop": []}
        with api.open("stream", **endless, sessionId="a") as first:
            assert first.read_head()[0] == 200
            next(first.lines())  # it has left the queue
            with api.open("stream", **endless, sessionId="b") as second:
                assert second.read_head()[0] == 200
                for route in ("generate", "stream"):
                    answer = api.post(route, {**endless, "sessionId": "c"})
                    assert "queue is full" in refused(answer, 503)
                    assert int(answer.header("retry-after") or "0") >= 1


def test_others_routes_know_nothing_of_this_dialects_names(server: ServerProcess) -> None:
    assert refused(post(server.port, "/v1/generation/nope", {}), 404) == "no such route"
    assert refused(post(server.port, "/v1/generation", {}), 404) == "no such route"
    answer = post(server.port, "/v1/generation/model/chatTemplate", {})
    assert answer.status == 405
    assert answer.header("allow") == "GET, HEAD"
