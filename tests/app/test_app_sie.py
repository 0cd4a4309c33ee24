"""`POST /v1/generate/{model}` of a real server with the default model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from serving import Answer, RawStream, ServerProcess, events, post, read_metrics, serve, wait_until

pytestmark = pytest.mark.model

PROMPT = "The capital of France is"
CITY: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "country": {"type": "string"}},
    "required": ["city", "country"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def sie(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Two sequences, and a log that tells everything."""
    env = {"LLMSERVE_LOG_LEVEL": "debug", "LLMSERVE_MAX_SEQUENCES": "2", "LLMSERVE_MAX_BODY_BYTES": "5000000"}
    with serve(tmp_path_factory.mktemp("sie"), model_path, env=env) as server:
        server.wait_until_ready()
        yield server


@pytest.fixture
def generate(sie: ServerProcess, model_path: Path) -> Any:
    def send(*, model: str = model_path.stem, headers: dict[str, str] | None = None, **fields: Any) -> Answer:
        body = {"prompt": PROMPT, "max_new_tokens": 8, "temperature": 0, **fields}
        answer = post(sie.port, f"/v1/generate/{model}", body, headers=headers)
        request_id = answer.header("x-sie-request-id")
        assert request_id == answer.header("x-request-id")
        assert answer.header("x-sie-server-version")
        return answer

    return send


def error(answer: Answer) -> tuple[int, str, str | None]:
    """Status, code and param of an error, which has the dialect's shape."""
    body = answer.json
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message", "param"}
    assert answer.header("x-sie-error-code") == body["error"]["code"]
    return answer.status, body["error"]["code"], body["error"]["param"]


def read_stream(text: str) -> list[dict[str, Any]]:
    """The events of a stream: numbered, of one request, and with one end."""
    lines = events(text)
    assert lines[-1] == "data: [DONE]"
    made: list[dict[str, Any]] = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
    assert [event["seq"] for event in made] == list(range(len(made)))
    assert len({event["request_id"] for event in made}) == 1
    assert [event["done"] for event in made] == [False] * (len(made) - 1) + [True]
    assert made[-1]["text_delta"] == ""
    return made


def test_one_answer(generate: Any, model_path: Path) -> None:
    answer = generate()
    assert answer.status == 200
    made = answer.json
    assert set(made) == {"model", "text", "finish_reason", "usage"}
    assert made["model"] == model_path.stem
    assert made["text"].startswith(" Paris")
    assert made["finish_reason"] == "length"
    usage = made["usage"]
    assert usage["completion_tokens"] == 8
    assert usage["total_tokens"] == usage["prompt_tokens"] + 8
    assert set(usage["prompt_tokens_details"]) == {"cached_tokens"}
    assert generate().json["usage"]["prompt_tokens_details"]["cached_tokens"] == usage["prompt_tokens"] - 1


def test_a_stream_gives_the_same(generate: Any) -> None:
    whole = generate().json
    answer = generate(stream=True)
    assert answer.header("content-type") == "text/event-stream; charset=utf-8"
    made = read_stream(answer.text)
    assert made[0]["request_id"] == answer.header("x-sie-request-id")
    assert all(set(event) == {"request_id", "seq", "text_delta", "done"} for event in made[:-1])
    assert "".join(event["text_delta"] for event in made) == whole["text"]
    last = made[-1]
    assert set(last) == {
        "request_id", "seq", "text_delta", "done", "finish_reason", "usage", "ttft_ms",
    }  # fmt: skip
    assert last["finish_reason"] == "length"
    assert last["usage"]["completion_tokens"] == 8
    assert last["ttft_ms"] > 0


def test_logprobs_come_with_each_token(generate: Any) -> None:
    made = read_stream(generate(stream=True, logprobs=True, top_logprobs=3).text)
    tokens = [token for event in made[:-1] for token in event["logprobs"]]
    assert len(tokens) == 8
    for token in tokens:
        assert set(token) == {"token", "logprob", "bytes", "top_logprobs"}
        assert bytes(token["bytes"]).decode() == token["token"]
        assert token["logprob"] <= 0
        best, *others = token["top_logprobs"]
        assert best == {name: token[name] for name in ("token", "logprob", "bytes")}  # It is greedy.
        assert len(others) == 2
    text = "".join(event["text_delta"] for event in made)
    assert "".join(token["token"] for token in tokens) == text
    bare = read_stream(generate(stream=True, logprobs=True, max_new_tokens=2).text)
    assert [token["top_logprobs"] for token in bare[0]["logprobs"]] == [[]]


def test_seeds_repeat(generate: Any) -> None:
    sampled = {"temperature": 1.5, "max_new_tokens": 16}
    first = generate(**sampled, seed=-5)
    assert first.json["text"] == generate(**sampled, seed=-5).json["text"]
    assert first.json["text"] != generate(**sampled, seed=5).json["text"]
    drawn = generate(**sampled)
    seed = int(drawn.header("x-llmserve-seed"))
    assert generate(**sampled, seed=seed).json["text"] == drawn.json["text"]


def test_what_ends_the_output(generate: Any) -> None:
    made = generate(max_new_tokens=60, stop=["United"]).json
    assert made["finish_reason"] == "stop"
    assert made["text"].endswith("The ")
    made = generate(options={"stop_tokens": ["."]}).json
    assert (made["text"], made["finish_reason"]) == (" Paris", "stop")
    kept = generate(options={"stop_tokens": ["."], "default_sampling": {"min_new_tokens": 5}}).json
    assert kept["finish_reason"] in ("stop", "length")
    several = generate(max_new_tokens=60, options={"stop_tokens": ["\ufffd", "The United"]}).json
    assert several["finish_reason"] == "stop"
    assert several["text"] == generate(max_new_tokens=60, stop=["The United"]).json["text"]


def test_logit_bias_bans_and_an_unknown_token_is_refused(generate: Any) -> None:
    banned = generate(max_new_tokens=1, logit_bias={"7042": -100}, temperature=0).json["text"]
    assert banned != " Paris"
    assert error(generate(logit_bias={"1000000": 1})) == (400, "invalid_request", "logit_bias")


def test_grammars(generate: Any) -> None:
    made = generate(prompt="I live in Barcelona, Spain.\n", max_new_tokens=60, grammar={"json_schema": CITY})
    jsonschema.validate(json.loads(made.json["text"]), CITY)
    made = generate(
        grammar={"regex": "[a-z]{3}-[0-9]{2}", "label": "code", "strict": True}, max_new_tokens=20
    )
    assert re.fullmatch("[a-z]{3}-[0-9]{2}", made.json["text"])
    gbnf = 'root ::= "<" word ">" | "[" root "]"\nword ::= [a-z]{2,5}'
    made = generate(grammar={"ebnf": gbnf}, max_new_tokens=100)
    assert re.fullmatch(r"(\[*)<[a-z]{2,5}>(\]*)", made.json["text"])
    made = generate(grammar={"ebnf": 'start: "yes" | "no"'})
    assert made.json["text"] in ("yes", "no")
    assert made.json["finish_reason"] == "stop"


def test_a_grammar_is_greedy_unless_a_temperature_is_given(generate: Any) -> None:
    fields = {"grammar": {"regex": "[a-z ]{40}"}, "max_new_tokens": 60, "temperature": None}
    texts = {generate(**fields, seed=seed).json["text"] for seed in range(3)}
    assert len(texts) == 1
    default = {"default_sampling": {"temperature": 2}}
    texts = {generate(**fields, seed=seed, options=default).json["text"] for seed in range(3)}
    assert len(texts) == 3


@pytest.mark.parametrize(
    ("fields", "param", "message"),
    [
        ({"grammar": {"ebnf": 'root ::= "a'}}, "grammar.ebnf", "line 1, column 10"),
        ({"grammar": {"ebnf": "start: ("}}, "grammar.ebnf", ""),
        ({"grammar": {"regex": "("}}, "grammar.regex", ""),
        ({"grammar": {"json_schema": {"type": "nothing"}}}, "grammar.json_schema", "type"),
        (
            {"grammar": {"json_schema": CITY}, "max_new_tokens": 3},
            "max_new_tokens",
            "only 3 may be generated",
        ),
        ({"stop": ["a"] * 65}, "stop", ""),
    ],
)
def test_what_the_engine_refuses(generate: Any, fields: dict[str, Any], param: str, message: str) -> None:
    for stream in (False, True):
        answer = generate(**fields, stream=stream)
        assert error(answer) == (400, "invalid_request", param)
        assert answer.json["error"]["message"].startswith(param)
        assert message in answer.json["error"]["message"]


def test_stop_has_no_effect_on_json_and_is_named(generate: Any) -> None:
    answer = generate(grammar={"json_schema": CITY}, stop=[":"], max_new_tokens=60)
    assert answer.header("x-llmserve-ignored") == "stop"
    jsonschema.validate(answer.json["text"] and json.loads(answer.json["text"]), CITY)
    for max_new_tokens in (30, 60):
        answer = generate(
            grammar={"json_schema": CITY}, options={"stop_tokens": ["}", '"']}, max_new_tokens=max_new_tokens
        )
        assert answer.header("x-llmserve-ignored") == "options.stop_tokens"
        jsonschema.validate(json.loads(answer.json["text"]), CITY)


def test_prompt_and_output_must_fit(generate: Any) -> None:
    answer = generate(max_new_tokens=2049)
    assert error(answer) == (400, "context_exceeded", "max_new_tokens")
    for stream in (False, True):
        answer = generate(max_new_tokens=2046, stream=stream)
        assert error(answer) == (400, "context_exceeded", "max_new_tokens")
        assert re.search(r"\b5 tokens\b.*2046.*2048", answer.json["error"]["message"])
    assert error(generate(prompt="word " * 3000)) == (400, "context_exceeded", "prompt")
    # What is left does not hold the shortest document, because of the prompt.
    answer = generate(prompt="word " * 2040, max_new_tokens=40, grammar={"json_schema": CITY})
    assert error(answer) == (400, "context_exceeded", "max_new_tokens")
    assert generate(max_new_tokens=2043, stop=["."]).status == 200


def test_sizes(generate: Any) -> None:
    assert error(generate(prompt="x" * ((4 << 20) + 1))) == (413, "INPUT_TOO_LONG", "prompt")
    assert error(generate(prompt="x" * 5_000_000)) == (413, "INPUT_TOO_LONG", None)


def test_models(generate: Any, sie: ServerProcess) -> None:
    answer = generate(model="Org/Name")
    assert error(answer) == (400, "MODEL_NOT_FOUND", "model")
    assert "'Org__Name'" in answer.json["error"]["message"]
    assert error(generate(model="Org%2FName")) == (400, "MODEL_NOT_FOUND", "model")
    assert error(generate(model="Org__Name")) == (404, "MODEL_NOT_FOUND", "model")


def test_headers(generate: Any) -> None:
    assert generate(headers={"X-SIE-Remote": "forbid", "X-SIE-MACHINE-PROFILE": "l4.spot_1-a"}).status == 200
    assert error(generate(headers={"X-SIE-Remote": "allow"})) == (400, "invalid_request", "X-SIE-Remote")
    for profile in ("a b", "", "x" * 65):
        answer = generate(headers={"X-SIE-MACHINE-PROFILE": profile})
        assert error(answer) == (400, "invalid_request", "X-SIE-MACHINE-PROFILE")


@pytest.mark.parametrize("path", ["encode/m", "score/m", "extract/m", "encode"])
def test_routes_that_are_not_served(sie: ServerProcess, path: str) -> None:
    answer = post(sie.port, f"/v1/{path}", {})
    assert error(answer) == (501, "not_supported", None)
    assert answer.header("x-sie-request-id")


def test_bodies_that_are_none(sie: ServerProcess, model_path: Path) -> None:
    for body in (b"", b"[]", b"{", b'{"prompt": NaN}'):
        answer = post(sie.port, f"/v1/generate/{model_path.stem}", body)
        assert error(answer) == (400, "invalid_request", None)


@pytest.mark.parametrize("limit", ["first_chunk_timeout_s", "overall_timeout_s"])
def test_a_limit_that_passes_before_output(generate: Any, limit: str) -> None:
    fields = {"prompt": "word " * 1800, "options": {limit: 0.001}}
    expected = (504, limit.removesuffix("_s"), f"options.{limit}")
    assert error(generate(**fields)) == expected
    answer = generate(**fields, stream=True)
    if answer.status == 200:  # Its head was sent in time.
        [end] = read_stream(answer.text)
        assert end["error"]["code"] == limit.removesuffix("_s")
        assert limit in end["error"]["message"]
    else:
        assert error(answer) == expected


def test_a_limit_that_passes_in_a_stream(generate: Any) -> None:
    made = read_stream(generate(stream=True, max_new_tokens=1900, options={"overall_timeout_s": 0.3}).text)
    last = made[-1]
    assert last["finish_reason"] == "error"
    assert last["error"]["code"] == "overall_timeout"
    assert "overall_timeout_s" in last["error"]["message"]
    assert generate().status == 200


def test_the_limit_between_outputs(generate: Any) -> None:
    options = {"inter_chunk_timeout_s": 1e-6, "first_chunk_timeout_s": 60}
    assert error(generate(max_new_tokens=200, options=options)) == (
        504,
        "timeout",
        "options.inter_chunk_timeout_s",
    )
    assert generate(options={"inter_chunk_timeout_s": 60, "overall_timeout_s": 60}).json == generate().json


def test_a_client_that_leaves_ends_its_request(sie: ServerProcess, model_path: Path) -> None:
    before = read_metrics(sie.port)
    body = {"prompt": PROMPT, "max_new_tokens": 1900, "stream": True, "logit_bias": {"0": -100, "2": -100}}
    with RawStream(sie.port, f"/v1/generate/{model_path.stem}", body) as stream:
        assert stream.read_head()[0] == 200
        next(stream.lines())
    [name] = [name for name in before if "cancelled" in name]
    wait_until(lambda: read_metrics(sie.port)[name] == before[name] + 1)


def test_sessions_go_on(generate: Any, sie: ServerProcess, model_path: Path) -> None:
    session = {"X-LLMServe-Session": "sie-1"}
    first = generate(headers=session).json["usage"]
    second = read_stream(generate(prompt=" And of Spain?", headers=session, stream=True).text)[-1]["usage"]
    assert second["prompt_tokens"] > first["total_tokens"]
    # What does not fit leaves the session as it was.
    for stream in (False, True):
        answer = generate(headers=session, max_new_tokens=2040, stream=stream)
        assert error(answer) == (400, "context_exceeded", "max_new_tokens")
    third = generate(prompt="!", headers=session, max_new_tokens=1).json["usage"]
    assert third["prompt_tokens"] == second["total_tokens"] + 1
    # It is the one that others know by this name.
    body = {"model": str(model_path), "prompt": "!", "max_tokens": 2000}
    assert post(sie.port, "/completions", body, headers=session).status == 200
    answer = generate(headers={"X-LLMServe-Session": "a b"})
    assert error(answer) == (400, "invalid_request", "X-LLMServe-Session")


def test_affinity_keys_change_nothing(generate: Any) -> None:
    assert generate(routing_key="a", prompt_cache_key="b").json["text"] == generate().json["text"]


def test_requests_of_one_cache_key_share_their_prefix(generate: Any) -> None:
    prefix = "A long beginning that all requests of this key have in common, word for word:"

    def num_cached(end: str, key: str) -> int:
        usage = generate(prompt=f"{prefix} {end}", prompt_cache_key=key).json["usage"]
        return int(usage["prompt_tokens_details"]["cached_tokens"])

    num_cached("one", "k")
    # Others come between them.
    generate(prompt="Something else altogether.", prompt_cache_key="other")
    assert num_cached("two", "k") > 10


def test_the_safety_identifier_is_in_no_log_and_no_answer(generate: Any, sie: ServerProcess) -> None:
    secret = "person-1b2c3d"  # noqa: S105
    for fields in ({}, {"stream": True}, {"temperature": "hot"}, {"max_new_tokens": 9999}):
        assert secret not in generate(safety_identifier=secret, **fields).text
    answer = generate(safety_identifier=[secret])
    assert error(answer) == (400, "invalid_request", "safety_identifier")
    assert secret not in answer.text
    sie.wait_for_log(" DEBUG ")
    assert secret not in sie.log
