"""The OpenAI dialect of a real server process: completions, refusals, sessions, and its end."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any, cast

import openai
import pytest

from serving import RawStream, ServerProcess, get, post, serve
from serving.openai_requests import CAPITAL, MODEL, chat, chunks, complete, user

pytestmark = pytest.mark.model

LONG_FORMAT = {
    "type": "json_schema",
    "name": "long",
    "schema": {"type": "array", "items": {"type": "string", "minLength": 9}, "minItems": 90},
}


def test_a_completion(client: openai.OpenAI) -> None:
    answer = client.completions.create(model=MODEL, prompt=CAPITAL, max_tokens=2, temperature=0)
    assert answer.choices[0].text == " Paris."
    assert answer.choices[0].finish_reason == "length"
    assert answer.model == MODEL
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (
        5,
        2,
        7,
    )
    again = client.completions.create(model=MODEL, prompt=CAPITAL, max_tokens=2, temperature=0)
    assert again.usage is not None
    assert again.usage.prompt_tokens_details is not None
    assert (again.usage.prompt_tokens, again.usage.prompt_tokens_details.cached_tokens) == (5, 4)
    assert again.choices[0].text == " Paris."
    timings = cast(Any, again.model_extra)["timings"]
    assert (timings["cache_n"], timings["prompt_n"], timings["predicted_n"]) == (4, 1, 2)


def test_streams_of_completions_join_to_the_answer(server: ServerProcess) -> None:
    whole = complete(server, n=2, temperature=1, seed=5).json
    for with_usage in (True, False):
        body = complete(
            server, n=2, temperature=1, seed=5, stream=True, stream_options={"include_usage": with_usage}
        ).text
        parts = chunks(body)
        if with_usage:
            last = parts.pop()
            assert (last["choices"], last["usage"]) == ([], {**last["usage"], "prompt_tokens": 5})
            assert last["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]
            assert all(part["usage"] is None for part in parts)
        else:
            assert all("usage" not in part for part in parts)
        for index in (0, 1):
            choices = [part["choices"][0] for part in parts if part["choices"][0]["index"] == index]
            assert "".join(choice["text"] for choice in choices) == whole["choices"][index]["text"]
            assert [choice["finish_reason"] for choice in choices][-1] == "length"


def test_prompts_of_all_kinds(server: ServerProcess) -> None:
    ids = post(server.port, "/tokenize", {"content": CAPITAL}).json["tokens"]
    assert len(ids) == 5
    assert post(server.port, "/detokenize", {"tokens": ids}).json["content"] == CAPITAL
    expected = complete(server).json["choices"][0]["text"]
    for prompt in (ids, [ids], [CAPITAL]):
        assert complete(server, prompt=prompt).json["choices"][0]["text"] == expected
    several = complete(server, prompt=[CAPITAL, ids, "One two three"], n=2).json
    texts = [choice["text"] for choice in several["choices"]]
    assert [choice["index"] for choice in several["choices"]] == list(range(6))
    assert texts[:4] == [expected] * 4
    assert texts[4] == texts[5] != expected
    assert several["usage"]["prompt_tokens"] == 13


def test_choices_differ_and_are_the_same_again(server: ServerProcess) -> None:
    def texts(**body: Any) -> list[str]:
        answer = complete(server, temperature=1, max_tokens=6, n=4, **body)
        assert answer.header("x-llmserve-seed") == str(body["seed"])
        return [choice["text"] for choice in answer.json["choices"]]

    first = texts(seed=7)
    assert len(set(first)) == 4
    assert texts(seed=7) == first
    assert texts(seed=8) != first
    assert complete(server, temperature=1, max_tokens=6, seed=7).json["choices"][0]["text"] == first[0]
    chosen = [c["message"]["content"] for c in chat(server, temperature=1, n=3, seed=7).json["choices"]]
    assert len(set(chosen)) == 3
    assert chosen == [
        c["message"]["content"] for c in chat(server, temperature=1, n=3, seed=7).json["choices"]
    ]


def test_echo_and_log_probabilities(server: ServerProcess) -> None:
    plain = complete(server, logprobs=3).json["choices"][0]
    lists = plain["logprobs"]
    assert "".join(lists["tokens"]) == plain["text"]
    assert [plain["text"][offset:] for offset in lists["text_offset"]][1].startswith(lists["tokens"][1])
    assert all(len(top) == 3 for top in lists["top_logprobs"])
    echoed = complete(server, echo=True).json["choices"][0]
    assert echoed["text"] == CAPITAL + plain["text"]
    only = complete(server, echo=True, max_tokens=0).json
    assert only["choices"][0]["text"] == CAPITAL
    assert (only["usage"]["prompt_tokens"], only["usage"]["completion_tokens"]) == (5, 0)
    streamed = chunks(complete(server, echo=True, stream=True).text)
    assert "".join(part["choices"][0]["text"] for part in streamed) == echoed["text"]
    ids = [504, 3575]
    assert complete(server, prompt=ids, echo=True, max_tokens=0).json["choices"][0]["text"] == "The capital"


@pytest.mark.parametrize("text", ["Write three emoji of fruits.", "用中文说你好"])
def test_bytes_of_log_probabilities_join_to_the_text(server: ServerProcess, text: str) -> None:
    body = {"messages": user(text), "max_tokens": 24, "logprobs": True, "top_logprobs": 2}
    whole = chat(server, **body).json
    choice = whole["choices"][0]
    content = choice["logprobs"]["content"]
    assert b"".join(bytes(entry["bytes"]) for entry in content) == choice["message"]["content"].encode()
    assert len(content) == whole["usage"]["completion_tokens"]
    parts = [part["choices"][0] for part in chunks(chat(server, **body, stream=True).text)]
    shown = [entry for part in parts if part["logprobs"] for entry in part["logprobs"]["content"]]
    assert shown == content


def test_log_probabilities_end_with_the_text(server: ServerProcess) -> None:
    whole = complete(server, logprobs=0, stop=["is"], prompt="one two three", max_tokens=40).json
    choice = whole["choices"][0]
    assert "".join(choice["logprobs"]["tokens"]).startswith(choice["text"])
    streamed = complete(server, logprobs=0, stop=["is"], prompt="one two three", max_tokens=40, stream=True)
    parts = [part["choices"][0]["logprobs"] for part in chunks(streamed.text)]
    assert [name for part in parts if part for name in part["tokens"]] == choice["logprobs"]["tokens"]


def test_fields_without_effect_are_named(server: ServerProcess) -> None:
    answer = chat(server, user="u", store=True, metadata={"a": "b"}, safety_identifier="quokka-77", foo=1)
    assert answer.status == 200
    assert set((answer.header("x-llmserve-ignored") or "").split(", ")) == {
        "user",
        "store",
        "metadata",
        "safety_identifier",
        "foo",
    }
    assert "quokka-77" not in server.log
    assert chat(server, prompt_cache_key="k").header("x-llmserve-ignored") is None


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("completions", {"prompt": ""}, 400, "empty_prompt"),
        ("completions", {"prompt": [""]}, 400, "empty_prompt"),
        ("completions", {"prompt": []}, 400, "invalid_value"),
        ("completions", {"prompt": "x", "suffix": "y"}, 400, "invalid_value"),
        ("completions", {"prompt": "x", "n": 3, "best_of": 2}, 400, "invalid_value"),
        ("completions", {"prompt": "x", "logit_bias": {"99999999": 5}}, 400, "invalid_value"),
        ("completions", {"prompt": [10**6]}, 400, "invalid_value"),
        ("completions", {"prompt": "x " * 3000}, 400, "context_length_exceeded"),
        ("completions", {"prompt": ["x"] * 129}, 400, "invalid_value"),
        ("completions", {"prompt": ["x"] * 43, "n": 3}, 400, "invalid_value"),
        ("completions", {"prompt": "x", "model": "nobody"}, 404, "model_not_found"),
        ("chat/completions", {"messages": []}, 400, "invalid_value"),
        ("chat/completions", {"messages": "hi"}, 400, "invalid_value"),
        ("chat/completions", {}, 400, "invalid_value"),
        ("responses", {"input": "x", "conversation": {}}, 400, "invalid_value"),
        ("embeddings", {"input": "x"}, 400, "wrong_model_kind"),
    ],
)
def test_refusals(server: ServerProcess, path: str, body: dict[str, Any], status: int, code: str) -> None:
    for extra in ({}, {"stream": True}) if path != "embeddings" else ({},):
        answer = post(server.port, f"/v1/{path}", {"model": MODEL, **body, **extra})
        assert answer.status == status
        assert answer.json["error"]["code"] == code
        sizes = {"n_prompt_tokens", "n_ctx"} if code == "context_length_exceeded" else set()
        assert set(answer.json["error"]) == {"message", "type", "param", "code", *sizes}
    assert complete(server).status == 200


@pytest.mark.parametrize("extra", [{}, {"stream": True}, {"n": 2}])
@pytest.mark.parametrize(("prompt", "named"), [("", "prompt"), (["x", "", "y"], "prompt[1]")])
def test_an_empty_prompt_is_named(server: ServerProcess, prompt: Any, named: str, extra: Any) -> None:
    error = post(server.port, "/v1/completions", {"model": MODEL, "prompt": prompt, **extra}).json["error"]
    assert (error["param"], error["message"]) == (named, f"{named}: must have at least one token")


@pytest.mark.parametrize("extra", [{}, {"stream": True}, {"n": 2}])
def test_a_prompt_that_is_too_long_is_named(server: ServerProcess, extra: dict[str, Any]) -> None:
    body = {"model": MODEL, "prompt": ["x", "x " * 3000, "y"], **extra}
    error = post(server.port, "/v1/completions", body).json["error"]
    assert (error["param"], error["n_ctx"]) == ("prompt[1]", 2048)
    assert error["n_prompt_tokens"] > 2048
    assert f"prompt[1] of {error['n_prompt_tokens']} tokens" in error["message"]


@pytest.mark.parametrize(
    "body", [b"[]", b"5", b"null", b"", b"{", b'{"temperature": NaN}', b'{"top_p": 1e999}']
)
def test_bodies_that_are_no_request(server: ServerProcess, body: bytes) -> None:
    for path in ("/v1/completions", "/v1/chat/completions", "/v1/responses", "/tokenize", "/detokenize"):
        answer = post(server.port, path, body)
        assert answer.status == 400
        assert answer.json["error"]["message"]


def test_a_client_that_leaves_ends_its_turn(server: ServerProcess) -> None:
    body = {"model": MODEL, "messages": user("Count to 1000."), "stream": True, "ignore_eos": True, "n": 2}
    with RawStream(server.port, "/v1/chat/completions", body) as stream:
        assert stream.read_head()[0] == 200
        next(stream.lines())
    assert complete(server).status == 200


def test_a_session_goes_on_with_raw_prompts(server: ServerProcess) -> None:
    def step(prompt: str) -> Any:
        body = {"model": MODEL, "prompt": prompt, "temperature": 0, "max_tokens": 2}
        return post(server.port, "/v1/completions", body, headers={"X-LLMServe-Session": "raw"}).json

    first = step(CAPITAL)
    second = step(" And the capital of Italy is")
    assert second["usage"]["prompt_tokens"] == 5 + 2 + 6
    joined = CAPITAL + first["choices"][0]["text"] + " And the capital of Italy is"
    assert second["choices"] == complete(server, prompt=joined, max_tokens=2).json["choices"]
    refused = post(
        server.port,
        "/v1/completions",
        {"model": MODEL, "prompt": "x", "n": 2},
        headers={"X-LLMServe-Session": "raw"},
    )
    assert refused.status == 400


@pytest.mark.parametrize("is_stream", [False, True])
def test_no_tokens_for_a_document_are_refused_like_too_few(server: ServerProcess, is_stream: bool) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    wanted = {"type": "json_schema", "json_schema": {"schema": schema}}
    for num_tokens in (0, 1, 4):
        refused = complete(server, max_tokens=num_tokens, response_format=wanted, stream=is_stream)
        assert refused.status == 400
        assert "max_tokens" in refused.json["error"]["message"]
        body = {"prompt": "a", "json_schema": schema, "n_predict": num_tokens, "stream": is_stream}
        refused = post(server.port, "/completion", body)
        assert refused.status == 400
        assert num_tokens > 0 or refused.json["error"]["param"] == "n_predict"
        assert num_tokens == 0 or refused.json["error"]["message"].startswith("n_predict: ")
    for constraint in (
        {"regex": "[0-9]+"},
        {"grammar": 'root ::= "a"'},
        {"structured_outputs": {"choice": ["a"]}},
    ):
        refused = complete(server, max_tokens=0, stream=is_stream, **constraint)
        assert (refused.status, refused.json["error"]["param"]) == (400, "max_tokens")
    # Without a constraint there is nothing that must be whole.
    assert complete(server, max_tokens=0, stream=is_stream).status == 200


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_schema_that_cannot_be_honoured_is_named_as_the_client_named_it(
    server: ServerProcess, is_stream: bool
) -> None:
    schema = {"type": "nothing"}
    wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    for field in ({"json_schema": schema}, {"response_format": wanted}):
        refused = complete(server, **field, stream=is_stream)
        (name,) = field
        assert (refused.status, refused.json["error"]["param"]) == (400, name)
        assert refused.json["error"]["message"].startswith(f"{name}: ")
    body = {"model": MODEL, "messages": [{"role": "user", "content": "x"}], "response_format": wanted}
    refused = post(server.port, "/v1/chat/completions", {**body, "stream": is_stream})
    assert (refused.status, refused.json["error"]["param"]) == (400, "response_format")
    body = {"model": MODEL, "input": "x", "text": {"format": {"type": "json_schema", "schema": schema}}}
    refused = post(server.port, "/v1/responses", {**body, "stream": is_stream})
    assert (refused.status, refused.json["error"]["param"]) == (400, "text.format")


def test_props(server: ServerProcess) -> None:
    props = get(server.port, "/props").json
    assert (props["model_alias"], props["total_slots"]) == (MODEL, 4)
    assert props["default_generation_settings"]["n_ctx"] == 2048
    assert "<|im_start|>" in props["chat_template"]
    pieces = post(server.port, "/tokenize", {"content": "é", "with_pieces": True}).json["tokens"]
    assert all(set(piece) == {"id", "piece"} for piece in pieces)


@pytest.mark.parametrize("route", ["completions", "chat/completions", "responses"])
def test_a_stopping_server_ends_streams_with_an_error(tiny_model: Path, tmp_path: Path, route: str) -> None:
    body: dict[str, Any] = {"model": tiny_model.stem, "stream": True, "temperature": 0}
    if route == "completions":
        body |= {"prompt": "sea", "max_tokens": -1, "ignore_eos": True}
    elif route == "responses":
        # Long enough to be running when the server is told to stop.
        body |= {"input": "sea", "text": {"format": LONG_FORMAT}}
    else:
        body |= {"messages": user("sea"), "ignore_eos": True}
    env = {"LLMSERVE_GRACE_S": "0", "LLMSERVE_CONTEXT_LENGTH": "4096"}
    with serve(tmp_path, tiny_model, env=env) as stopping:
        stopping.wait_until_ready()
        with RawStream(stopping.port, f"/v1/{route}", body) as stream:
            assert stream.read_head()[0] == 200
            lines = stream.lines()
            next(lines)
            stopping.signal(signal.SIGTERM)
            rest = [line for line in lines if line.startswith("data:")]
        error = json.loads(rest[-1].removeprefix("data: "))["error"]
        assert (error["code"], error["type"]) == ("server_stopping", "overloaded_error")
        assert stopping.wait() == 0
