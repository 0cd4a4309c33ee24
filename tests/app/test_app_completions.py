"""`POST /completions` of a real server with the default model."""

from __future__ import annotations

import itertools
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from serving import Answer, RawStream, ServerProcess, events, get, post, read_metrics, wait_until

pytestmark = pytest.mark.model

WIDE = dict.fromkeys(map(str, range(1001)))
PROMPT = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture
def complete(server: ServerProcess, model_path: Path) -> Any:
    def send(**fields: Any) -> Answer:
        return post(server.port, "/completions", {"model": str(model_path), "prompt": PROMPT, **fields})

    return send


def stream_events(answer: Answer) -> list[dict[str, Any]]:
    lines = events(answer.text)
    assert lines[-1] == "data: [DONE]"
    assert all(line.startswith("data: {") for line in lines[:-1])
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


def test_one_answer(complete: Any) -> None:
    answer = complete(max_tokens=30)
    assert answer.status == 200
    assert answer.header("content-type") == "application/json"
    assert answer.json["token"] == 0
    assert answer.json["tokens"] == 0
    assert "Paris" in answer.json["message"]
    assert set(answer.json) == {"message", "token", "tokens"}


def test_a_stream_has_an_event_for_every_token_and_the_same_text(complete: Any) -> None:
    answer = complete(max_tokens=30, stream=True)
    assert answer.status == 200
    assert answer.header("content-type") == "text/event-stream; charset=utf-8"
    made = stream_events(answer)
    assert [event["tokens"] for event in made] == list(range(1, len(made) + 1))
    assert all(set(event) == {"message", "token", "tokens"} for event in made)
    assert "".join(event["message"] for event in made) == complete(max_tokens=30).json["message"]


@pytest.mark.parametrize("temperature", [0, 1.5])
def test_characters_are_never_split(complete: Any, temperature: float) -> None:
    options = {"random_seed": 11}
    fields = {
        "prompt": "🙂🚀 日本語で: 猫は",
        "max_tokens": 30,
        "temperature": temperature,
        "options": options,
    }
    whole = complete(**fields).json["message"]
    made = stream_events(complete(**fields, stream=True))
    assert "".join(event["message"] for event in made) == whole
    assert len(made) == 30 or made[-1]["message"] == ""


@pytest.mark.parametrize("max_tokens", [0, None, -1, -3])
def test_no_tokens_wanted_none_given(complete: Any, max_tokens: int | None) -> None:
    assert complete(max_tokens=max_tokens).json == {"message": "", "token": 0, "tokens": 0}
    assert events(complete(max_tokens=max_tokens, stream=True).text) == ["data: [DONE]"]


def test_very_many_tokens_end_with_the_context(complete: Any) -> None:
    answer = complete(max_tokens=10**9, stream=True, options={"max_kv_size": 64})
    assert len(stream_events(answer)) <= 64


def test_max_kv_size_bounds_prompt_plus_output(complete: Any) -> None:
    prompt = "one two three four five six"
    fields = {"prompt": prompt, "max_tokens": 100, "stream": True}
    size = len(stream_events(complete(**fields, options={"max_kv_size": 20})))
    assert len(stream_events(complete(**fields, options={"max_kv_size": 24}))) == size + 4
    refused = complete(prompt=prompt, max_tokens=5, options={"max_kv_size": 3})
    assert refused.status == 400
    num_tokens = 20 - size
    message = f"options.max_kv_size must be at least the prompt's {num_tokens} tokens, got 3"
    assert refused.json == {"error": message}


def test_seeds(complete: Any) -> None:
    def text(seed: int, **fields: Any) -> str:
        answer = complete(max_tokens=8, temperature=1.0, options={"random_seed": seed, "min_p": 0}, **fields)
        if seed >= 0:
            assert answer.header("x-llmserve-seed") == str(seed)
        message: str = answer.json["message"]
        return message

    assert text(7) == text(7)
    assert text(7) != text(8)
    random = complete(max_tokens=8, temperature=1.0, options={"min_p": 0})
    assert text(int(random.header("x-llmserve-seed"))) == random.json["message"]


def test_a_stream_names_its_seed_before_the_first_token(server: ServerProcess, model_path: Path) -> None:
    body = {"model": str(model_path), "prompt": PROMPT, "max_tokens": 3, "stream": True}
    with RawStream(server.port, "/completions", body) as stream:
        status, headers = stream.read_head()
        assert status == 200
        assert 0 <= int(headers["x-llmserve-seed"]) < 2**31
        assert list(stream.lines())[-1] == "data: [DONE]"


def test_no_repeat_ngram(complete: Any) -> None:
    options = {"no_repeat_ngram_size": 2, "random_seed": 1}
    made = stream_events(complete(prompt="la la la la la", max_tokens=20, stream=True, options=options))
    ids = [event["token"] for event in made]
    pairs = list(itertools.pairwise(ids))
    assert len(pairs) == len(set(pairs))


def test_what_has_no_effect_is_named(server: ServerProcess, model_path: Path) -> None:
    body = {
        "model": str(model_path),
        "prompt": "x",
        "max_tokens": 1,
        "user": "u",
        "options": {"length_penalty": 1, "kv_bits": 4, "kv_group_size": 64, "foo": 1, "mirostat_tau": 5},
    }
    answer = post(server.port, "/completions", body)
    assert answer.status == 200
    named = (answer.header("x-llmserve-ignored") or "").split(", ")
    assert set(named) == {
        "user",
        "options.foo",
        "options.mirostat_tau",
        "options.length_penalty",
        "options.kv_bits",
        "options.kv_group_size",
    }
    post(server.port, "/completions", body)
    server.wait_for_log("options.kv_group_size has no effect")
    assert server.log.count("options.kv_group_size has no effect") == 1


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"stop": ["a"]}, "stop"),
        ({"grammar": 'root ::= "a"'}, "grammar"),
        ({"best_of": 3}, "best_of"),
        ({"min_p": 0.1}, "min_p"),
        ({"options": {"mirostat": 1}}, "options.mirostat"),
        ({"options": {"frequency_penalty": 0.5}}, "options.frequency_penalty"),
        ({"guided_json": {"type": "object"}}, "guided_json"),
        ({"tools": [{"type": "function"}]}, "tools"),
        ({"maxTokens": 5}, "maxTokens"),
        ({"options": {"temperature": 2}}, "options.temperature"),
        ({"options": {"ebnf": 'root ::= "a"'}}, "options.ebnf"),
    ],
)
def test_what_would_change_the_text_is_refused(complete: Any, body: dict[str, Any], named: str) -> None:
    answer = complete(max_tokens=1, **body)
    assert answer.status == 400
    assert f"{named} " in answer.json["error"]
    assert complete(max_tokens=1, options={"mirostat": 0, "top_a": None}, seed=-1).status == 200


def test_nothing_ignored_no_header(complete: Any) -> None:
    assert complete(max_tokens=1, top_k=5, options={"min_p": 0.1}).header("x-llmserve-ignored") is None


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"prompt": None}, "prompt is required"),
        ({"model": ""}, "model is required"),
        ({"model": "/no/such.gguf"}, "unknown model: model must be the path of a loaded model"),
        ({"model": "a\0b"}, "model is not allowed"),
        ({"max_tokens": "5"}, "max_tokens must be an integer, got a string"),
        ({"temperature": True}, "temperature must be a number, got a boolean"),
        ({"top_p": 1.5}, "top_p must be at most 1, got 1.5"),
        ({"options": {"random_seed": -2}}, "options.random_seed must be at least -1, got -2"),
        (
            {"options": {"random_seed": 2**31}},
            "options.random_seed must be at most 2147483647, got 2147483648",
        ),
        ({"options": []}, "options must be an object, got an array"),
        (
            {"options": dict.fromkeys(map(str, range(1001)))},
            "options must have at most 1000 fields, got 1001",
        ),
        (WIDE, "body must have at most 1000 fields, got 1005"),
        ({"model": "a/" * 20_000}, "model is not allowed"),
        ({"stream": "yes"}, "stream must be a boolean, got a string"),
        ({"prompt": ["a"]}, "prompt must be a string, got an array"),
    ],
)
def test_bad_fields(complete: Any, fields: dict[str, Any], message: str, is_stream: bool) -> None:
    answer = complete(**{"max_tokens": 5, "stream": is_stream, **fields})
    assert answer.status == 400
    assert answer.header("content-type") == "application/json"
    assert answer.json == {"error": message}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"5",
        b"null",
        b"{",
        b'{"prompt": NaN}',
        b'{"temperature": 1e999}',
        b"\xff\xfe",
        b'"\\ud800"',
    ],
)
def test_malformed_bodies(server: ServerProcess, body: bytes) -> None:
    answer = post(server.port, "/completions", body)
    assert answer.status == 400
    assert set(answer.json) == {"error"}
    assert "body" in answer.json["error"]
    load = post(server.port, "/models/load", body)
    assert load.status == 400
    # No body at all has no path; what is wrong with any other is said, too.
    assert load.json["error"] == (f"path is required: {answer.json['error']}" if body else "path is required")


@pytest.mark.parametrize("is_stream", [False, True])
def test_an_empty_prompt_is_refused_and_the_next_request_works(complete: Any, is_stream: bool) -> None:
    answer = complete(prompt="", max_tokens=5, stream=is_stream)
    assert answer.status == 400
    assert answer.json["error"].startswith("prompt")
    assert complete(prompt=" ", max_tokens=1).status == 200


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_prompt_over_the_context_is_refused_with_both_numbers(complete: Any, is_stream: bool) -> None:
    answer = complete(prompt="word " * 5000, max_tokens=5, stream=is_stream)
    assert answer.status == 400
    assert "2048" in answer.json["error"]
    assert "500" in answer.json["error"]
    assert complete(max_tokens=1).status == 200


def test_the_model_is_found_through_links(server: ServerProcess, model_path: Path, tmp_path: Path) -> None:
    link = tmp_path / "other-name.gguf"
    link.symlink_to(model_path)
    for path in (str(link), os.path.relpath(model_path, server.folder)):
        answer = post(server.port, "/completions", {"model": path, "prompt": "x", "max_tokens": 1})
        assert answer.status == 200


def test_answers_in_parallel_are_those_given_alone(complete: Any) -> None:
    prompts = [f"The number {n} and the letter {chr(65 + n)} are" for n in range(8)]

    def ask(prompt: str) -> str:
        is_stream = prompt in prompts[::2]
        answer = complete(prompt=prompt, max_tokens=8, stream=is_stream)
        if is_stream:
            return "".join(event["message"] for event in stream_events(answer))
        message: str = answer.json["message"]
        return message

    alone = [ask(prompt) for prompt in prompts]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(ask, prompts))
    # Near-ties may flip with the shape of a batch; an answer to another's question would not begin alike.
    same = [one == two for one, two in zip(alone, together, strict=True)]
    assert sum(same) >= 7, list(zip(alone, together, strict=True))


def test_the_counters_tell_what_happened(server: ServerProcess, model_path: Path, complete: Any) -> None:
    label = f'{{model="{model_path.stem}"}}'
    route = 'llmserve_http_requests_total{route="/completions",method="POST",status="200"}'
    # Counted once its answer is complete, which the client may see a moment earlier.
    wait_until(lambda: read_metrics(server.port)["llmserve_http_requests_open"] == 1)
    before = read_metrics(server.port)
    complete(prompt="Once upon a time", max_tokens=7)
    wait_until(lambda: read_metrics(server.port)[route] == before[route] + 1)
    after = read_metrics(server.port)
    for name, growth in (("completion_tokens", 7), ("requests_length", 1), ("requests_accepted", 1)):
        full_name = f"llmserve_{name}_total{label}"
        assert after[full_name] - before[full_name] == growth
    assert after["llmserve_http_requests_open"] == 1  # this very one


def test_request_ids(server: ServerProcess) -> None:
    assert (
        get(server.port, "/health", headers={"X-Request-ID": "abc-1.2_3"}).header("x-request-id")
        == "abc-1.2_3"
    )
    for bad in ("a b", "x" * 129, "é"):
        made = get(server.port, "/health", headers={"X-Request-ID": bad}).header("x-request-id")
        assert made is not None
        assert len(made) == 32
