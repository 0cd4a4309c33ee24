"""llama-server's `/completion` on a real server process."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from serving import Answer, ServerProcess, events, post
from serving.openai_requests import CAPITAL, MODEL, complete

pytestmark = pytest.mark.model


def ask(server: ServerProcess, **body: Any) -> Answer:
    return post(server.port, "/completion", {"prompt": CAPITAL, "n_predict": 2, "temperature": 0, **body})


def parts(answer: Answer) -> list[Any]:
    assert answer.status == 200, answer.text
    return [json.loads(line.removeprefix("data: ")) for line in events(answer.text)]


def test_an_answer(server: ServerProcess) -> None:
    made = ask(server, return_tokens=True).json
    assert (made["content"], made["stop"], made["stop_type"]) == (" Paris.", True, "limit")
    assert (made["model"], made["tokens_predicted"], made["tokens_evaluated"]) == (MODEL, 2, 5)
    assert len(made["tokens"]) == 2
    assert made["timings"]["predicted_n"] == 2
    ids = post(server.port, "/tokenize", {"content": CAPITAL}).json["tokens"]
    assert ask(server, prompt=ids).json["content"] == " Paris."
    last = ask(server, n_predict=20).json["content"].split()[-1]
    stopped = ask(server, n_predict=20, stop=[last]).json
    assert (stopped["stop_type"], stopped["stopping_word"]) == ("word", last)
    assert last not in stopped["content"]
    empty = ask(server, n_predict=0).json
    assert (empty["content"], empty["tokens_evaluated"], empty["stop_type"]) == ("", 5, "limit")


def test_a_stream_ends_with_its_last_event(server: ServerProcess) -> None:
    *pieces, last = parts(ask(server, n_predict=20, stream=True))
    assert not any(piece["stop"] for piece in pieces)
    assert (last["stop"], last["content"], last["tokens_predicted"]) == (True, "", 20)
    whole = ask(server, n_predict=20).json["content"]
    assert "".join(piece["content"] for piece in pieces) == whole
    assert whole == complete(server, max_tokens=20).json["choices"][0]["text"]
    (only,) = parts(ask(server, n_predict=0, stream=True))
    assert only["stop"]


@pytest.mark.parametrize("stream", [True, False])
def test_a_time_limit_ends_a_text_that_has_a_line_end(server: ServerProcess, stream: bool) -> None:
    line = {"grammar": 'root ::= "a\\n" [a-z]*', "temperature": 1, "seed": 1, "ignore_eos": True}
    *_, last = parts(ask(server, n_predict=800, t_max_predict_ms=1, stream=True, **line))
    if not stream:
        last = ask(server, n_predict=800, t_max_predict_ms=1, **line).json
        assert last["content"].startswith("a\n")
    assert (last["stop_type"], last["has_new_line"]) == ("limit", True)
    assert last["tokens_predicted"] < 800


def test_a_time_limit_waits_for_a_line_end(server: ServerProcess) -> None:
    line = {"grammar": "root ::= [a-z]*", "ignore_eos": True}
    assert ask(server, n_predict=90, t_max_predict_ms=1, **line).json["tokens_predicted"] == 90
    assert ask(server, n_predict=9, t_max_predict_ms=-1).json["tokens_predicted"] == 9


def test_constraints_and_seeds(server: ServerProcess) -> None:
    made = ask(server, grammar='root ::= "yes" | "no"', n_predict=9).json
    assert made["content"] in ("yes", "no")
    assert made["stop_type"] == "eos"
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    assert list(json.loads(ask(server, json_schema=schema, n_predict=30).json["content"])) == ["a"]
    fields = {"n_predict": 9, "temperature": 1.2, "seed": 5}
    answer = ask(server, **fields)
    assert answer.header("x-llmserve-seed") == "5"
    assert answer.json["content"] == ask(server, **fields).json["content"]


def test_a_session_goes_on(server: ServerProcess) -> None:
    headers = {"X-LLMServe-Session": "native"}
    body = {"prompt": CAPITAL, "n_predict": 2, "temperature": 0}
    first = post(server.port, "/completion", body, headers=headers).json
    second = post(server.port, "/completion", {**body, "prompt": " It"}, headers=headers).json
    assert second["tokens_evaluated"] > first["tokens_evaluated"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"n_predict": -2}, "n_predict"),
        ({"prompt": 5}, "prompt"),
        ({"temperature": "hot"}, "temperature"),
        ({"grammar": "root ::= ("}, "grammar"),
        ({"grammar": 'root ::= "a"', "json_schema": {}}, "grammar"),
        ({"json_schema": 5}, "json_schema"),
        ({"model": "none"}, "model"),
    ],
    ids=str,
)
def test_refusals(server: ServerProcess, body: dict[str, Any], param: str) -> None:
    answer = ask(server, **body)
    assert answer.status == (404 if param == "model" else 400)
    assert answer.json["error"]["param"] == param
    assert not re.search("/root|Traceback", answer.text)


def test_unknown_fields_are_named(server: ServerProcess) -> None:
    answer = ask(server, n_keep=2, stop=["x"], json_schema={"type": "object", "properties": {}}, n_predict=9)
    assert set((answer.header("x-llmserve-ignored") or "").split(", ")) == {"n_keep", "stop"}
