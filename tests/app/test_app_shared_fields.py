"""What all routes of the OpenAI API honour of other servers' fields, on a generated model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from serving import Answer, Server, events, post, serve_in_process
from serving.openai_requests import text_of, user

CONTEXT_LENGTH = 1024
READS = (
    "{% for d in documents or [] %}{{ d.text }}{% endfor %}{% for m in messages %}{{ m.content }}{% endfor %}"
)
SCHEMA = {"type": "object", "properties": {"city": {"enum": ["Paris"]}}, "required": ["city"]}
ANSWER = {"city": "Paris"}

Ask: TypeAlias = Callable[..., Answer]


@pytest.fixture(scope="module")
def tiny(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    env = {"LLMSERVE_CONTEXT_LENGTH": str(CONTEXT_LENGTH), "LLMSERVE_REQUEST_CHAT_TEMPLATE": "true"}
    with serve_in_process(tmp_path_factory.mktemp("shared"), tiny_model, env=env) as server:
        yield server


def asking(server: Server, model: Path, path: str, key: str, wrapped: Callable[[Any], Any]) -> Ask:
    """Asks a route whose body has under `key` what was said."""

    def ask(said: Any = "Say hello", /, **body: Any) -> Answer:
        return post(server.port, path, {"model": model.stem, key: wrapped(said), "temperature": 0, **body})

    return ask


@pytest.fixture
def chat(tiny: Server, tiny_model: Path) -> Ask:
    return asking(tiny, tiny_model, "/v1/chat/completions", "messages", user)


@pytest.fixture
def complete(tiny: Server, tiny_model: Path) -> Ask:
    return asking(tiny, tiny_model, "/v1/completions", "prompt", lambda said: said)


@pytest.fixture
def respond(tiny: Server, tiny_model: Path) -> Ask:
    return asking(tiny, tiny_model, "/v1/responses", "input", lambda said: said)


@pytest.fixture
def native(tiny: Server) -> Ask:
    def ask(said: Any = "Say hello", /, **body: Any) -> Answer:
        return post(tiny.port, "/completion", {"prompt": said, "temperature": 0, **body})

    return ask


@pytest.fixture(params=["chat", "complete", "respond", "native"])
def ask(request: pytest.FixtureRequest) -> Ask:
    """Asks one of the four routes."""
    asks: Ask = request.getfixturevalue(request.param)
    return asks


def prompt_tokens(answer: Answer) -> int:
    assert answer.status == 200, answer.text
    made = answer.json
    usage = made.get("usage", {"prompt_tokens": made.get("tokens_evaluated")})
    return int(usage.get("prompt_tokens", usage.get("input_tokens")))


def output_tokens(answer: Answer) -> int:
    assert answer.status == 200, answer.text
    made = answer.json
    usage = made.get("usage", {"completion_tokens": made.get("tokens_predicted")})
    return int(usage.get("completion_tokens", usage.get("output_tokens")))


def end_of(answer: Answer) -> str:
    """Why the text ended."""
    made = answer.json
    if "choices" in made:
        return str(made["choices"][0]["finish_reason"])
    return str(made["stop_type"] if "stop_type" in made else made["status"])


def streamed_text(answer: Answer) -> str:
    """The text of a stream of any of the routes."""
    lines = [line for event in events(answer.text) for line in event.splitlines()]
    parts = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
    return "".join(map(text_in, parts))


def text_in(part: Any) -> str:
    """The text in an event of any of the routes."""
    if part.get("choices"):
        (choice,) = part["choices"]
        return str(choice.get("text") or choice.get("delta", {}).get("content") or "")
    if part.get("type") == "response.output_text.delta":
        return str(part["delta"])
    return str(part.get("content") or "")


def test_a_stop_string_is_shown_if_the_client_wants_it(ask: Ask) -> None:
    body = {"regex": "one two three", "stop": [" two"], "n_predict": 40}
    assert text_of(ask(**body)) == "one"
    shown = ask(**body, include_stop_str_in_output=True)
    assert text_of(shown) == "one two"
    streamed = ask(**body, include_stop_str_in_output=True, stream=True)
    assert streamed_text(streamed) == "one two"


def test_the_shown_stop_string_has_its_tokens_in_logprobs(chat: Ask) -> None:
    body = {"regex": "one two three", "stop": [" two"], "max_tokens": 40, "logprobs": True}
    for fields, text in (({}, "one"), ({"include_stop_str_in_output": True}, "one two")):
        choice = chat(**body, **fields).json["choices"][0]
        assert "".join(entry["token"] for entry in choice["logprobs"]["content"]) == text


def test_prompts_are_truncated_to_their_last_tokens(ask: Ask) -> None:
    body = {"n_predict": 4, "cache_prompt": False}
    assert prompt_tokens(ask(**body, truncate_prompt_tokens=3)) == 3
    assert prompt_tokens(ask(**body, truncate_prompt_tokens=500)) == prompt_tokens(ask(**body))
    long = "word " * CONTEXT_LENGTH
    assert prompt_tokens(ask(long, **body, truncate_prompt_tokens=100)) == 100


def test_a_truncated_prompt_gives_what_its_end_gives(native: Ask, tiny: Server) -> None:
    ids = post(tiny.port, "/tokenize", {"content": "The sea is deep", "add_special": True}).json["tokens"]
    made = native("The sea is deep", n_predict=5, truncate_prompt_tokens=2).json
    assert made["content"] == native(ids[-2:], n_predict=5).json["content"]
    assert made["truncated"]
    assert not native("The sea is deep", n_predict=5, truncate_prompt_tokens=200).json["truncated"]


LINE = {"grammar": 'root ::= "a\\n" [a-z]*', "temperature": 1, "seed": 1, "ignore_eos": True}


def test_a_time_limit_ends_a_text_that_has_a_line_end(ask: Ask) -> None:
    made = ask(**LINE, n_predict=900, t_max_predict_ms=1)
    assert output_tokens(made) < 900
    assert text_of(made).startswith("a\n")
    assert end_of(made) in ("length", "limit", "incomplete")
    streamed = streamed_text(ask(**LINE, n_predict=900, t_max_predict_ms=1, stream=True))
    assert streamed.startswith("a\n")


def test_a_time_limit_waits_for_a_line_end(ask: Ask) -> None:
    body = {"grammar": "root ::= [a-z]*", "ignore_eos": True, "n_predict": 90}
    assert output_tokens(ask(**body, t_max_predict_ms=1)) == 90


def test_choices_have_a_time_limit_each(complete: Ask) -> None:
    made = complete(**LINE, n_predict=900, t_max_predict_ms=1, n=2).json["choices"]
    assert [choice["finish_reason"] for choice in made] == ["length", "length"]


def test_other_servers_limits_count_in_responses(respond: Ask) -> None:
    made = respond(n_predict=2, max_output_tokens=5)
    assert (output_tokens(made), made.json["max_output_tokens"]) == (2, 2)
    refused = respond(n_predict=0)
    assert (refused.status, refused.json["error"]["param"]) == (400, "n_predict")


def test_documents_in_responses(respond: Ask) -> None:
    body = {"chat_template": READS, "max_output_tokens": 1}
    without = prompt_tokens(respond(**body))
    assert prompt_tokens(respond(**body, documents=[{"text": "The sea is deep."}])) > without
    refused = respond(max_output_tokens=1, documents=[{"text": "a"}])
    assert (refused.status, refused.json["error"]["param"]) == (400, "documents")


def test_a_prefix_is_continued(chat: Ask) -> None:
    begun = {"role": "assistant", "content": "Once upon"}
    body = {"max_tokens": 4, "chat_template": READS}
    messages = [*user("Tell."), begun]
    continued = chat(messages=messages, continue_final_message=True, **body)
    prefixed = chat(messages=[*user("Tell."), {**begun, "prefix": True}], **body)
    assert prompt_tokens(prefixed) == prompt_tokens(continued)
    assert text_of(prefixed) == text_of(continued)
    assert text_of(chat(messages=[*user("Tell."), {**begun, "prefix": False}], **body)) == text_of(
        chat(messages=messages, **body)
    )


@pytest.mark.parametrize(
    ("messages", "more", "param"),
    [
        ([{"role": "user", "content": "a", "prefix": True}], {}, "messages[0].prefix"),
        ([{"role": "assistant", "content": "a", "prefix": True}, *user("b")], {}, "messages[0].prefix"),
        ([*user("b"), {"role": "assistant", "content": "a", "prefix": 1}], {}, "messages[1].prefix"),
        (
            [*user("b"), {"role": "assistant", "content": "a", "prefix": True}],
            {"add_generation_prompt": True},
            "messages[1].prefix",
        ),
    ],
)
def test_a_prefix_that_cannot_be_continued(
    chat: Ask, messages: list[Any], more: dict[str, Any], param: str
) -> None:
    refused = chat(messages=messages, max_tokens=1, **more)
    assert (refused.status, refused.json["error"]["param"]) == (400, param)


def test_items_of_responses_have_no_prefix(respond: Ask) -> None:
    refused = respond([*user("a"), {"role": "assistant", "content": "b", "prefix": True}])
    assert (refused.status, refused.json["error"]["param"]) == (400, "input[1].prefix")


@pytest.mark.parametrize(
    "given",
    [
        {"type": "json_object", "json_schema": {"schema": SCHEMA}},
        {"type": "json_object", "schema": SCHEMA},
        {"type": "json_schema", "name": "n", "schema": SCHEMA},
        {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}},
    ],
    ids=str,
)
def test_schemas_count_wherever_a_format_has_them(
    chat: Ask, complete: Ask, respond: Ask, native: Ask, given: dict[str, Any]
) -> None:
    for ask in (chat, complete, native):
        assert json.loads(text_of(ask(response_format=given, n_predict=60))) == ANSWER
    assert json.loads(text_of(respond(text={"format": given}, n_predict=60))) == ANSWER


def test_anthropics_tools_are_refused(chat: Ask, respond: Ask) -> None:
    function = {"name": "f", "input_schema": {"type": "object"}}
    refused = chat(tools=[{"type": "function", "function": function}])
    assert (refused.status, refused.json["error"]["param"]) == (400, "tools[0].function.input_schema")
    refused = respond(tools=[{"type": "function", **function}])
    assert (refused.status, refused.json["error"]["param"]) == (400, "tools[0].input_schema")


@pytest.mark.parametrize("more", [{}, {"n_predict": 500}, {"stream": True}], ids=str)
def test_a_full_context_is_not_blamed_on_the_token_limit(ask: Ask, more: dict[str, Any]) -> None:
    # A document of this schema takes more than what the prompt leaves.
    schema = {"type": "string", "minLength": 200}
    room = 40
    body = {"json_schema": schema, "truncate_prompt_tokens": CONTEXT_LENGTH - room, "n_predict": -1, **more}
    answer = ask("word " * CONTEXT_LENGTH, **body)
    assert answer.status == 400, answer.text
    error = answer.json["error"]
    assert error["code"] == "context_length_exceeded"
    assert (error["n_prompt_tokens"], error["n_ctx"]) == (CONTEXT_LENGTH - room, CONTEXT_LENGTH)
    assert f"leave room for {room} tokens of output, and the shortest document takes" in error["message"]


def test_a_token_limit_is_blamed_where_it_is_the_limit(ask: Ask) -> None:
    error = ask(json_schema={"type": "string", "minLength": 200}, n_predict=5).json["error"]
    assert (error["code"], error["param"]) == ("budget_too_small", "n_predict")


def mean_logprob(choice: Any) -> float:
    scores = choice["logprobs"]["token_logprobs"]
    return float(sum(scores) / len(scores))


def test_the_best_of_several_texts(complete: Ask) -> None:
    body = {"seed": 7, "temperature": 1.5, "logprobs": 0, "max_tokens": 6, "ignore_eos": True}
    prompts = ["sea", "land"]
    drawn = complete(prompts, n=5, **body).json["choices"]
    answer = complete(prompts, n=2, best_of=5, **body).json
    expected = []
    for index in range(2):
        ranked = sorted(drawn[5 * index : 5 * index + 5], key=mean_logprob, reverse=True)
        expected += [choice["text"] for choice in ranked[:2]]
    assert [choice["text"] for choice in answer["choices"]] == expected
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    # All that were generated count.
    assert answer["usage"]["completion_tokens"] == 60
    unscored = complete(prompts, n=2, best_of=5, **{**body, "logprobs": None}).json["choices"]
    shown = [(choice["text"], choice["logprobs"]) for choice in unscored]
    assert shown == [(text, None) for text in expected]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"n": 2, "best_of": 1}, "best_of"),
        ({"best_of": 2, "stream": True}, "best_of"),
        ({"best_of": 129}, "best_of"),
        ({"best_of": 0}, "best_of"),
    ],
)
def test_a_best_of_that_cannot_be(complete: Ask, body: dict[str, Any], field: str) -> None:
    refused = complete(max_tokens=1, **body)
    assert (refused.status, refused.json["error"]["param"]) == (400, field)
    assert complete(max_tokens=1, best_of=1, stream=True).status == 200
