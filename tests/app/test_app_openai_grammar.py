"""`grammar` in the OpenAI dialect, and its routes without `/v1`, on a real server process."""

from __future__ import annotations

import re
from typing import Any

import openai
import pytest

from serving import ServerProcess, get, post
from serving.openai_requests import CAPITAL, MODEL, chat, chunks, complete, function, user

pytestmark = pytest.mark.model

GBNF = 'root ::= "It is " city "."\ncity ::= "Paris" | "Rome" | "Bern"'
LARK = 'start: "It is " CITY "."\nCITY: "Paris" | "Rome" | "Bern"'
ANSWER = re.compile(r"It is (Paris|Rome|Bern)\.")


@pytest.mark.parametrize("grammar", [GBNF, LARK], ids=["gbnf", "lark"])
def test_a_text_of_the_grammar(server: ServerProcess, grammar: str) -> None:
    for seed in range(4):
        body = {"grammar": grammar, "max_tokens": 20, "temperature": 2, "seed": seed}
        (choice,) = complete(server, **body).json["choices"]
        assert ANSWER.fullmatch(choice["text"])
        assert choice["finish_reason"] == "stop"
        (choice,) = chat(server, **body).json["choices"]
        assert ANSWER.fullmatch(choice["message"]["content"])


def test_a_stream_keeps_to_the_grammar(server: ServerProcess) -> None:
    body = {"grammar": GBNF, "max_tokens": 20, "stream": True}
    texts = [part["choices"][0]["text"] for part in chunks(complete(server, **body).text)]
    assert ANSWER.fullmatch("".join(texts))
    deltas = [part["choices"][0]["delta"].get("content") or "" for part in chunks(chat(server, **body).text)]
    assert ANSWER.fullmatch("".join(deltas))


def test_an_empty_grammar_is_none(server: ServerProcess) -> None:
    free = complete(server).json["choices"]
    for grammar in ("", None):
        assert complete(server, grammar=grammar).json["choices"] == free


JSON_FORMAT: dict[str, Any] = {"type": "json_object"}


@pytest.mark.parametrize("ask", [complete, chat])
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"grammar": GBNF, "response_format": JSON_FORMAT}, "grammar cannot be used with response_format"),
        ({"grammar": "root ::= ("}, "grammar is not valid GBNF: "),
        ({"grammar": "start: ("}, "grammar: "),
        ({"grammar": "neither"}, "grammar: "),
        ({"grammar": "root ::= root"}, "grammar is not valid GBNF: the rule 'root' matches no finite text"),
        ({"grammar": 'root ::= "' + "x" * 70_000 + '"'}, "grammar must have at most 65536 bytes, got 70011"),
        ({"grammar": 5}, "grammar must be a string, got the number 5"),
        ({"grammar": 'root ::= "\ud800"'}, ""),
    ],
    ids=lambda value: "" if callable(value) else str(value)[:40],
)
def test_wrong_grammars_are_refused(server: ServerProcess, ask: Any, body: Any, message: str) -> None:
    answer = ask(server, **body)
    assert answer.status == 400, answer.text
    error = answer.json["error"]
    assert error["message"].startswith(message)
    assert error["type"] == "invalid_request_error"
    assert len(error["message"]) < 1000


def test_tools_beside_a_grammar(server: ServerProcess) -> None:
    tools = [function("weather", "city")]
    refused = chat(server, grammar=GBNF, tools=tools)
    assert refused.status == 400
    assert refused.json["error"]["param"] == "grammar"
    (choice,) = chat(server, grammar=GBNF, tools=tools, tool_choice="none", max_tokens=20).json["choices"]
    assert ANSWER.fullmatch(choice["message"]["content"])
    (choice,) = chat(server, grammar=GBNF, tools=tools, tool_choice="required", max_tokens=40).json["choices"]
    assert choice["message"]["tool_calls"]


def test_routes_without_version(server: ServerProcess) -> None:
    url = f"http://127.0.0.1:{server.port}"
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=300) as client:
        assert client.models.list().data[0].id == MODEL
        messages = user("Say hello")
        answer = client.chat.completions.create(model=MODEL, messages=messages, temperature=0, max_tokens=8)
        assert answer.choices[0].message.content == chat(server).json["choices"][0]["message"]["content"]
        response = client.responses.create(model=MODEL, input="Say hello", temperature=0, max_output_tokens=8)
        assert response.output_text == answer.choices[0].message.content
    assert get(server.port, "/models").json == get(server.port, "/v1/models").json
    for path, required in (("/chat/completions", "messages"), ("/responses", "input")):
        assert post(server.port, path, {}).json["error"]["param"] == required
        assert get(server.port, path).status == 405
    # These are other dialects'.
    assert post(server.port, "/completions", {"model": MODEL, "prompt": CAPITAL}).json["error"].count(" ")
    assert post(server.port, "/models/load", {}).json == {"error": "path is required"}
