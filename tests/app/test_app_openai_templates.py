"""Chat templates and documents that come with a request."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serving import Answer, Server, serve_in_process
from serving.client import post
from serving.openai_requests import MODEL, chat, text_of, user

pytestmark = pytest.mark.model

SHOUTS = "{% for m in messages %}{{ m.content | upper }}{% endfor %}"
READS = "{% for d in documents %}{{ d.title }}: {{ d.text }}\n{% endfor %}" + SHOUTS


@pytest.fixture(scope="module")
def server(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that takes the templates of its clients."""
    env = {"LLMSERVE_REQUEST_CHAT_TEMPLATE": "true"}
    with serve_in_process(tmp_path_factory.mktemp("templates"), model_path, env=env) as running:
        yield running


def respond(server: Server, **body: Any) -> Answer:
    whole = {"model": MODEL, "input": "Say hello", "temperature": 0, "max_output_tokens": 8, **body}
    return post(server.port, "/v1/responses", whole)


def prompt_tokens(answer: Answer) -> int:
    assert answer.status == 200, answer.text
    usage = answer.json["usage"]
    return int(usage.get("prompt_tokens", usage.get("input_tokens")))


def num_tokens(server: Server, text: str) -> int:
    return len(post(server.port, "/tokenize", {"content": text}).json["tokens"])


@pytest.mark.parametrize("ask", [chat, respond])
def test_a_template_of_the_request(server: Server, ask: Any) -> None:
    given = ask(server, chat_template=SHOUTS)
    assert prompt_tokens(given) == num_tokens(server, "SAY HELLO")
    assert prompt_tokens(ask(server, chat_template="default")) == prompt_tokens(ask(server))
    assert prompt_tokens(ask(server, chat_template="")) == prompt_tokens(ask(server))


def test_documents_of_a_template_that_reads_them(server: Server) -> None:
    documents = [{"title": "Sea", "text": "It is deep."}]
    answer = chat(server, chat_template=READS, documents=documents, messages=user("hello"))
    assert prompt_tokens(answer) == num_tokens(server, "Sea: It is deep.\nHELLO")
    assert text_of(answer)
    refused = chat(server, chat_template=SHOUTS, documents=documents)
    assert (refused.status, refused.json["error"]["param"]) == (400, "documents")


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{% for m in messages %}", "the chat template failed"),
        ("rag", "the model has no 'rag', only default"),
        ("{{ 1 }}" + "x" * 300_000, "the chat template is too long"),
        ("{{ a }}" * 10_000, "the chat template"),
    ],
    ids=["broken", "unknown", "long", "large"],
)
@pytest.mark.parametrize("ask", [chat, respond])
def test_templates_that_cannot_be_used(server: Server, ask: Any, template: str, words: str) -> None:
    answer = ask(server, chat_template=template)
    assert answer.status == 400
    assert answer.json["error"]["param"] == "chat_template"
    assert words in answer.json["error"]["message"]


LOOPS = """{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.name }}(\
{% for key, value in c.function.arguments.items() %}{{ key }}={{ value }},{% endfor %})\
{% endfor %}{% endfor %}"""


@pytest.mark.parametrize("given", [{}, {"arguments": None}, {"arguments": "null"}, {"arguments": " "}])
def test_a_former_call_without_arguments(server: Server, given: dict[str, Any]) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", **given}}
    turns = [*user("A"), {"role": "assistant", "content": "", "tool_calls": [call]}, *user("B")]
    answer = chat(server, chat_template=LOOPS, messages=turns)
    assert prompt_tokens(answer) == num_tokens(server, "Af()B")
    item = {"type": "function_call", "call_id": "1", "name": "f", **given}
    answer = respond(server, chat_template=LOOPS, input=[*user("A"), item, *user("B")])
    assert prompt_tokens(answer) == num_tokens(server, "Af()B")


def test_arguments_that_a_template_cannot_take_are_named(server: Server) -> None:
    function = {"name": "f", "arguments": "x"}
    call = {"id": "1", "type": "function", "function": function}
    systems = [{"role": "system", "content": "S"}, {"role": "developer", "content": "D"}]
    turns = [*systems, *user("A"), {"role": "assistant", "content": "", "tool_calls": [call]}, *user("B")]
    error = chat(server, chat_template=LOOPS, messages=turns).json["error"]
    assert error["param"] == "messages[3].tool_calls[0].function.arguments"
    item = {"type": "function_call", "call_id": "1", **function}
    error = respond(server, chat_template=LOOPS, instructions="I", input=[*user("A"), item]).json["error"]
    assert error["param"] == "input[1].arguments"


ONE_SYSTEM = """{% for m in messages %}{% if m.role == "system" and loop.index0 > 0 %}\
{{ raise_exception("System message must be at the beginning") }}{% endif %}{{ m.content }}{% endfor %}"""


def test_a_system_message_that_comes_too_late_is_named(server: Server) -> None:
    late = {"role": "developer", "content": "D"}
    turns = [{"role": "system", "content": "S"}, *user("A"), late, *user("B")]
    error = chat(server, chat_template=ONE_SYSTEM, messages=turns).json["error"]
    assert (error["param"], error["type"]) == ("messages[2].role", "invalid_request_error")
    error = respond(server, chat_template=ONE_SYSTEM, instructions="S", input=turns[1:]).json["error"]
    assert error["param"] == "input[1].role"
    assert chat(server, chat_template=ONE_SYSTEM, messages=[turns[0], late, *user("B")]).status == 200


def test_a_template_is_held_to_the_limits_of_others(server: Server) -> None:
    endless = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}{{ messages }}"
    answer = chat(server, chat_template=endless)
    assert (answer.status, answer.json["error"]["code"]) == (400, "template_error")
    answer = chat(server, chat_template="{{ messages.__class__ }}")
    assert answer.status == 400


@pytest.mark.parametrize("value", ["{{ messages }}", "default"])
def test_a_server_that_takes_no_templates_names_its_setting(
    model_path: Path, tmp_path: Path, value: str
) -> None:
    with serve_in_process(tmp_path, model_path) as server:
        for ask in (chat, respond):
            error = ask(server, chat_template=value).json["error"]
            assert error["param"] == "chat_template"
            assert error["message"].endswith("LLMSERVE_REQUEST_CHAT_TEMPLATE is off")
