"""Sessions of `/v1/generation`: continuing, apart from each other, in files, shared with `/completions`."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from llmserve import inspect_session
from llmserve.server.apis.llamatik.routes import routes
from llmserve.server.generation import GenerationService
from llmserve.server.models import SessionTable
from llmserve.server.services import Services
from llmserve.server.settings import parse_settings
from llmserve.server.stale_files import remove_stale_files
from llmserve.server.web.gate import Gate
from serving import Llamatik, Server, events, post, serve_in_process
from serving.llamatik import PREFIX, joined, parsed, rest
from serving.server import SMALL
from synthetic import BOS

GREEDY: dict[str, Any] = {"temperature": 0, "repeatPenalty": 1}
SHORT: dict[str, Any] = {"maxTokens": 8, **GREEDY}


@pytest.fixture(scope="module")
def running(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve_in_process(tmp_path_factory.mktemp("server"), tiny_model) as running:
        yield running


@pytest.fixture
def api(running: Server, tiny_model: Path) -> Llamatik:
    api = Llamatik(running)
    api.init(tiny_model)
    api.ok("session/reset")
    return api


def complete(running: Server, model: Path, prompt: str, session: str | None, **fields: Any) -> str:
    headers = {} if session is None else {"X-LLMServe-Session": session}
    body = {"model": str(model), "prompt": prompt, "max_tokens": 8, **fields}
    answer = post(running.port, "/completions", body, headers=headers)
    assert answer.status == 200, answer.text
    assert answer.header("x-llmserve-ignored") is None
    message: str = answer.json["message"]
    return message


def test_one_shot_text_is_what_the_deltas_give(api: Llamatik) -> None:
    for fields in (
        {"prompt": "🙂🚀 日本語で: 猫は", "maxTokens": 40, "seed": 5, "temperature": 1.2},
        {"prompt": "one two three four five", "maxTokens": 40, "stop": "eight nine", **GREEDY},
        {"prompt": "Once upon a time", "maxTokens": 20, "seed": 7},
    ):
        assert joined(api.stream("stream", **fields)) == api.text("generate", **fields)


def test_a_stop_text_never_shows(api: Llamatik) -> None:
    prompt = "The numbers are one, two, three, four, five, six"
    whole = api.text("generate", prompt=prompt, maxTokens=24, **GREEDY)
    stop = whole[4:9]
    made = api.stream("stream", prompt=prompt, maxTokens=24, stop=[stop], **GREEDY)
    assert joined(made) == whole[: whole.index(stop)]
    assert made[-1]["finishReason"] == "stop"


def test_continue_goes_on_from_the_cells(api: Llamatik) -> None:
    first = api.whole("generate", prompt="Once upon a time", **SHORT)
    text = "Once upon a time" + first["text"] + " And"
    second = api.whole("continue", prompt=" And", **SHORT)
    usage = second["usage"]
    before = first["usage"]["promptTokens"] + first["usage"]["completionTokens"]
    assert usage["promptTokens"] > before
    # All but the token that was drawn last, whose cell was not computed.
    assert usage["cachedTokens"] == before - 1
    # The same as the whole text given as a prompt: reuse is never visible.
    assert second["text"] == api.text("generate", prompt=text, sessionId="other", **SHORT)


def test_continue_stream_is_continue(api: Llamatik) -> None:
    def asks(prompt: str) -> str:
        return joined(api.stream("continueStream", prompt=prompt, **SHORT))

    def whole(prompt: str) -> str:
        return api.text("continue", prompt=prompt, **SHORT)

    texts = []
    for ask in (asks, whole):
        api.text("generate", prompt="Once upon a time", **SHORT)
        texts.append([ask(" And"), ask(" So")])
    assert texts[0] == texts[1]


def test_continue_without_a_beginning_is_generate(api: Llamatik) -> None:
    prompt = "The capital of France is"
    fresh = api.text("continue", prompt=prompt, sessionId="never-used", **SHORT)
    assert fresh == api.text("generate", prompt=prompt, **SHORT)


def test_after_a_context_continue_is_the_next_turn(api: Llamatik) -> None:
    turns = [{"role": "system", "content": "You are concise."}, {"role": "user", "content": "C\n\nHello"}]
    context = {"systemPrompt": "You are concise.", "contextBlock": "C", "userPrompt": "Hello"}
    for max_tokens in (4, 200):  # cut short, and ended by the model
        limit = {**GREEDY, "maxTokens": max_tokens}
        first = api.whole("generateWithContext", **context, **limit)
        second = api.whole("continue", prompt="And now? <|im_end|>", **limit)
        conversation = [
            *turns,
            {"role": "assistant", "content": first["text"]},
            {"role": "user", "content": "And now?"},
        ]
        answer = api.post("model/applyChatTemplate", {"messages": conversation})
        expected = api.whole("generate", prompt=answer.json["prompt"], sessionId="raw", **limit)
        third = api.whole("generateWithContext", **context, **limit)
        assert third["text"] == first["text"]
        again = api.whole("continue", prompt="And now?", **limit)
        assert again["text"] == expected["text"]
        assert again["usage"]["promptTokens"] == expected["usage"]["promptTokens"]
        assert again["usage"]["cachedTokens"] > 0
        # What a user writes never is a control token.
        assert second["usage"]["promptTokens"] > again["usage"]["promptTokens"] + 1
        # And so on: the mode stays.
        further = api.whole("continue", prompt="More?", maxTokens=1, **GREEDY)
        before = again["usage"]["promptTokens"] + again["usage"]["completionTokens"]
        assert further["usage"]["promptTokens"] > before + 6


def test_a_model_without_a_template_gets_a_plain_layout(tiny_model: Path, tmp_path: Path) -> None:
    path = tmp_path / "base.gguf"
    # The same file, but nobody knows this key.
    path.write_bytes(tiny_model.read_bytes().replace(b"tokenizer.chat_template", b"tokenizer.chat_templatX"))
    with serve_in_process(tmp_path, path) as running:
        api = Llamatik(running)
        api.init(path)
        assert api.get("model/chatTemplate").json == {"chatTemplate": None}
        turns = [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]
        rendered = api.post("model/applyChatTemplate", {"messages": turns}).json["prompt"]
        assert rendered == "System: S\n\nUser: U\n\nAssistant:"
        open_ended = api.post("model/applyChatTemplate", {"messages": turns, "addAssistantPrefix": False})
        assert open_ended.json["prompt"] == "System: S\n\nUser: U\n\n"
        context = api.whole("generateWithContext", systemPrompt="S", userPrompt="U", **SHORT)
        raw = api.whole("generate", prompt=rendered, sessionId="raw", **SHORT)
        assert context["text"] == raw["text"]
        assert context["usage"]["promptTokens"] == raw["usage"]["promptTokens"]
        go_on = api.whole("continue", prompt="And?", maxTokens=1, temperature=0)
        as_text = api.whole("continue", prompt="And?", maxTokens=1, temperature=0, sessionId="raw")
        # The roles are part of the next turn.
        assert go_on["usage"]["promptTokens"] > as_text["usage"]["promptTokens"] + len("User: Assistant:") - 4


def test_after_raw_calls_continue_stays_raw(api: Llamatik) -> None:
    api.text("generateWithContext", userPrompt="Hello", **SHORT)
    first = api.whole("generate", prompt="Once upon a time", **SHORT)
    num_tokens = first["usage"]["promptTokens"] + first["usage"]["completionTokens"]
    for _ in range(3):
        answer = api.whole("continue", prompt=" and", **SHORT)
        assert answer["usage"]["promptTokens"] == num_tokens + 1
        num_tokens += 1 + answer["usage"]["completionTokens"]


def test_calls_of_one_session_queue_in_order(api: Llamatik) -> None:
    alone = [api.text("generate", prompt="Once upon a time", **SHORT)]
    alone += [api.text("continue", prompt=f" {word}", **SHORT) for word in ("and", "so")]
    with (
        api.open("stream", prompt="Once upon a time", **SHORT) as first,
        ThreadPoolExecutor(1) as pool,
    ):
        assert first.read_head()[0] == 200
        lines = first.lines()
        begun = parsed(next(lines))
        second = pool.submit(api.text, "continue", prompt=" and", **SHORT)
        together = [
            joined([begun, *rest(lines)]),
            second.result(),
            api.text("continue", prompt=" so", **SHORT),
        ]
    assert together == alone


def test_sessions_apart_and_one_shots_between_them(api: Llamatik, running: Server, tiny_model: Path) -> None:
    def talk(name: str) -> list[str]:
        texts = [api.text("generate", prompt=f"My name is {name}. I am", sessionId=name, **SHORT)]
        for word in ("and", "but", "so", "then"):
            texts.append(api.text("continue", prompt=f" {word}", sessionId=name, **SHORT))
        return texts

    def one_shots() -> list[str]:
        return [complete(running, tiny_model, f"The number {n} is", None) for n in range(5)]

    alone = [talk("Anna"), talk("Bert"), one_shots()]
    for _ in range(2):
        with ThreadPoolExecutor(3) as pool:
            together = [pool.submit(talk, "Anna"), pool.submit(talk, "Bert"), pool.submit(one_shots)]
            results = [one.result() for one in together]
        # Rows of one batch may flip a near-tie; another's text would not begin alike.
        same = [
            one == two for a, b in zip(alone, results, strict=True) for one, two in zip(a, b, strict=True)
        ]
        assert sum(same) >= len(same) - 2, (alone, results)


def test_reset_empties_one_session_after_its_call(api: Llamatik) -> None:
    api.text("generate", prompt="Once upon a time", sessionId="kept", **SHORT)
    with api.open("stream", prompt="Once upon a time", maxTokens=1500, **GREEDY) as stream:
        stream.read_head()
        lines = stream.lines()
        next(lines)
        api.ok("session/reset")
        # It waited: everything has come.
        assert rest(lines)[-1]["event"] == "done"
    assert api.whole("continue", prompt=" and", **SHORT)["usage"]["promptTokens"] == len([BOS, " and"])
    assert api.whole("continue", prompt=" and", sessionId="kept", **SHORT)["usage"]["cachedTokens"] > 5


def test_files(api: Llamatik, tmp_path: Path) -> None:
    path = tmp_path / "chat.bin"
    api.text("generateWithContext", userPrompt="Hello", **SHORT)
    saved = api.post("session/save", {"path": str(path)}).json
    assert saved == {"ok": True, "tokens": inspect_session(path).num_tokens, "bytes": path.stat().st_size}
    wanted = api.whole("continue", prompt="And?", **SHORT)
    # Into another session, as the next turn of a chat: the mode is in the file.
    api.ok("session/load", {"path": str(path), "sessionId": "loaded"})
    answer = api.whole("continue", prompt="And?", sessionId="loaded", **SHORT)
    assert answer["text"] == wanted["text"]
    assert answer["usage"]["promptTokens"] == wanted["usage"]["promptTokens"]
    # An empty session is one too.
    api.ok("session/reset")
    api.ok("session/save", {"path": str(path)})
    api.ok("session/load", {"path": str(path)})
    assert api.post("continue", {"prompt": "Once", **SHORT}).status == 200


def test_a_session_that_does_not_exist_cannot_be_saved(api: Llamatik, tmp_path: Path) -> None:
    path = tmp_path / "none.bin"
    answer = api.post("session/save", {"path": str(path), "sessionId": "unknown"})
    assert (answer.status, answer.json) == (404, {"error": "there is no session 'unknown'"})
    assert not path.exists()


@pytest.mark.parametrize("kind", ["missing", "text", "cut", "edited", "folder"])
def test_a_file_that_cannot_be_loaded_changes_nothing(api: Llamatik, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "chat.bin"
    api.text("generate", prompt="The capital of France is", **SHORT)
    api.ok("session/save", {"path": str(path)})
    data = path.read_bytes()
    if kind == "missing":
        path.unlink()
    elif kind == "text":
        path.write_text("this is no session")
    elif kind == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif kind == "edited":
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    else:
        path.unlink()
        path.mkdir()
    before = api.whole("generate", prompt="Once upon a time", **SHORT)["usage"]
    answer = api.post("session/load", {"path": str(path)})
    assert answer.status == 400
    assert str(tmp_path) not in answer.json["error"]
    usage = api.whole("continue", prompt=" and", **SHORT)["usage"]
    assert usage["promptTokens"] == before["promptTokens"] + before["completionTokens"] + 1


def test_a_file_that_is_no_session_is_not_replaced(api: Llamatik, tmp_path: Path) -> None:
    path = tmp_path / "precious.txt"
    path.write_text("precious")
    api.text("generate", prompt="Once", **SHORT)
    assert api.post("session/save", {"path": str(path)}).status == 400
    assert path.read_text() == "precious"
    assert api.post("session/save", {"path": str(tmp_path / "no" / "folder.bin")}).status == 400


def test_no_file_is_saved_under_a_name_that_a_later_start_would_remove(api: Llamatik, tmp_path: Path) -> None:
    api.text("generate", prompt="Once", **SHORT)
    (tmp_path / "link.bin").symlink_to(tmp_path / ".llmserve-linked.tmp")
    for name in (".llmserve-mine.tmp", "link.bin"):
        answer = api.post("session/save", {"path": str(tmp_path / name)})
        assert (answer.status, answer.json) == (400, {"error": "path is not allowed"})
    api.ok("session/save", {"path": str(tmp_path / "llmserve-mine.tmp")})
    assert remove_stale_files(tmp_path) == 0


def test_a_session_is_the_same_at_completions(api: Llamatik, running: Server, tiny_model: Path) -> None:
    raw = {"options": {"min_p": 0}}
    first = complete(running, tiny_model, "Once upon a time", "shared", **raw)
    second = api.whole("continue", prompt=" And", sessionId="shared", **SHORT)
    assert second["usage"]["promptTokens"] > 10
    third = complete(running, tiny_model, " So", "shared", **raw)
    whole = "Once upon a time" + first + " And" + second["text"] + " So"
    assert third == complete(running, tiny_model, whole, None, **raw)
    stream = post(
        running.port,
        "/completions",
        {"model": str(tiny_model), "prompt": " x", "max_tokens": 2, "stream": True},
        headers={"X-LLMServe-Session": "shared"},
    )
    assert events(stream.text)[-1] == "data: [DONE]"
    # The default session is this dialect's own.
    assert api.whole("continue", prompt="Once", **SHORT)["usage"]["promptTokens"] == len([BOS, *"Once"])


def test_bad_names_at_completions(running: Server, tiny_model: Path) -> None:
    body = {"model": str(tiny_model), "prompt": "x", "max_tokens": 1}
    answer = post(running.port, "/completions", body, headers={"X-LLMServe-Session": "a/b"})
    assert answer.status == 400
    assert answer.json["error"] == "X-LLMServe-Session must be 1 to 128 of A-Z a-z 0-9 . _ -, got 'a/b'"


def test_expired_sessions_are_told_of_once(tiny_model: Path, tmp_path: Path) -> None:
    now = 0.0

    async def main() -> None:
        nonlocal now
        made = Services.create(parse_settings(SMALL))
        sessions = SessionTable(100, 8, lambda: now)
        generation = GenerationService(made.registry, sessions, made.lifecycle, made.request_metrics, 60)
        services = dataclasses.replace(made, sessions=sessions, generation=generation)
        gate = Gate(
            services.settings, services.lifecycle, services.http_counters, services.tracing, routes(services)
        )
        transport = httpx.ASGITransport(gate, client=("127.0.0.1", 1))
        url = f"http://127.0.0.1:1{PREFIX}"
        async with httpx.AsyncClient(transport=transport, base_url=url, timeout=60) as client:

            async def call(route: str, **body: Any) -> httpx.Response:
                return await client.post(route, json=body)

            assert (await call("init", modelPath=str(tiny_model))).json() == {"ok": True}
            for name in ({}, {"sessionId": "a"}):
                body = {"prompt": "sea", "maxTokens": 1, **name}
                await call("generate", **body)
                now += 101
                for route, given in (("continue", body), ("session/save", {"path": "x.bin", **name})):
                    answer = await call(route, **given)
                    assert answer.status_code == 410
                    assert answer.json() == {
                        "error": "the session has expired: the next call begins a new one"
                    }
                    # Told once: then it begins anew.
                    answer = await call("continue", **body)
                    assert answer.json()["usage"]["promptTokens"] == len(await tokens(services, "sea"))
                    now += 101
                # A call that begins anew by itself is not told.
                assert (await call("generate", **body)).status_code == 200
        await services.registry.close()

    asyncio.run(main())


async def tokens(services: Services, text: str) -> list[int]:
    (model,) = services.registry.models
    assert model.engine is not None
    return await model.engine.tokenize(text)


def test_too_many_sessions_cost_the_longest_idle_one(tiny_model: Path, tmp_path: Path) -> None:
    with serve_in_process(tmp_path, tiny_model, env={"LLMSERVE_MAX_SESSIONS": "2"}) as running:
        api = Llamatik(running)
        api.init(tiny_model)
        for name in ("a", "b", "c"):
            api.text("generate", prompt="Once", maxTokens=1, sessionId=name)
        assert api.post("continue", {"prompt": " and", "maxTokens": 1, "sessionId": "a"}).status == 410
        answer = api.post("continue", {"prompt": " and", "maxTokens": 1, "sessionId": "c"})
        assert answer.json["usage"]["promptTokens"] == len([BOS, *"Once", "one token", " and"])
        body = {"model": str(tiny_model), "prompt": " and", "max_tokens": 1}
        api.text("generate", prompt="Once", maxTokens=1, sessionId="d")
        answer = post(running.port, "/completions", body, headers={"X-LLMServe-Session": "b"})
        assert answer.status == 410
