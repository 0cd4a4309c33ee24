"""Turns of models with other templates: tool calls in their own formats, and reasoning.

The model is the default one, which copies what the conversation so far has shown it. Where any text will do,
it is a generated one under the same templates (`tiny-...`), whose prompts take no time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serving import Server, events, post, serve_in_process
from serving.call_templates import CALL_TEMPLATES

pytestmark = [pytest.mark.model, pytest.mark.slow]

TEMPLATES = Path(__file__).parent.parent / "data" / "templates" / "jinja"

CALLING = (
    "qwen-3",
    "qwen-3-coder",
    "glm-4.6",
    "mistral-nemo",
    "mistral-small-3.2",
    "ministral-3",
    "own-header-tools",
    "gpt-oss",
)
# A template that nothing is known of.
UNKNOWN = "python"

# Shows reasoning of former turns, so that the model goes on with it.
THINKING = """\
{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and not enable_thinking %}<think>

</think>

{% elif opens %}<think>
{% endif %}{% endif %}"""

# Without blanks around the tag, so that a token holds its end and the answer's quote.
TIGHT = THINKING.replace("\n</think>\n\n{% endif %}", "</think>{% endif %}", 1)

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@pytest.fixture(scope="module")
def models(model_path: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with two models under several templates, which share their weights."""
    folder = tmp_path_factory.mktemp("templated")
    files = {name: TEMPLATES / f"{name}.jinja" for name in CALLING}
    own = {"thinking": THINKING, "thinking-tight": TIGHT, UNKNOWN: CALL_TEMPLATES[UNKNOWN]}
    for name, template in own.items():
        files[name] = folder / f"{name}.jinja"
        files[name].write_text(template)
    catalogue = folder / "catalogue.toml"
    entries = [_entry(name, model_path, file, 2048) for name, file in files.items()]
    # Its tokens are bytes.
    entries += [_entry(f"tiny-{name}", tiny_model, file, 4096) for name, file in files.items()]
    catalogue.write_text("".join(entries))
    env = {"LLMSERVE_CATALOGUE": str(catalogue), "LLMSERVE_LOAD_WAIT_S": "120"}
    with serve_in_process(folder, env=env) as server:
        yield server


def _entry(name: str, model: Path, template: Path, context_length: int) -> str:
    return (
        f"[[models]]\nid = '{name}'\npath = '{model}'\nchat_template_file = '{template}'\n"
        f"context_length = {context_length}\n"
    )


def tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": SCHEMA}}


TOOLS = [tool("get_weather"), tool("get_time")]


WEATHER = (("Rome", "sunny"), ("Oslo", "cold"), ("Lima", "dry"))


def calling(num_calls: int, num_turns: int = len(WEATHER)) -> list[dict[str, Any]]:
    """A conversation in which the assistant has made the given number of calls in each turn."""
    messages: list[dict[str, Any]] = []
    for turn, (city, weather) in enumerate(WEATHER[:num_turns]):
        ids = [f"call{turn}000{number}" for number in range(num_calls)]
        arguments = json.dumps({"city": city})
        calls = [
            {"id": id_, "type": "function", "function": {"name": "get_weather", "arguments": arguments}}
            for id_ in ids
        ]
        messages += [
            {"role": "user", "content": f"Weather in {city}?"},
            {"role": "assistant", "content": None, "tool_calls": calls},
        ]
        messages += [{"role": "tool", "tool_call_id": id_, "content": weather} for id_ in ids]
        messages.append({"role": "assistant", "content": f"It is {weather}."})
    return [*messages, {"role": "user", "content": "Weather in Paris?"}]


def thinking() -> list[dict[str, Any]]:
    """A conversation in which the assistant has thought before it answered."""
    messages: list[dict[str, Any]] = []
    for city in ("Rome", "Oslo", "Lima"):
        messages += [
            {"role": "user", "content": f"Where is {city}?"},
            {
                "role": "assistant",
                "content": f"{city} is a city.",
                "reasoning_content": f"They ask about {city}.",
            },
        ]
    return [*messages, {"role": "user", "content": "Where is Paris?"}]


def asked(model: str, messages: list[Any], body: dict[str, Any]) -> dict[str, Any]:
    return {"model": model, "messages": messages, "temperature": 0, "max_tokens": 80, **body}


def chat_whole(server: Server, model: str, messages: list[Any], **body: Any) -> Any:
    """The choice of a whole answer."""
    answer = post(server.port, "/v1/chat/completions", asked(model, messages, body))
    assert answer.status == 200, answer.text
    return {**answer.json["choices"][0], "usage": answer.json["usage"]}


def chat(server: Server, model: str, messages: list[Any], **body: Any) -> Any:
    """The same, which a stream must give as well: seconds more with the default model."""
    choice = chat_whole(server, model, messages, **body)
    request = {**asked(model, messages, body), "stream": True}
    assert collected(post(server.port, "/v1/chat/completions", request).text) == shown(choice)
    return choice


def shown(choice: Any) -> tuple[str, str, list[tuple[str, str]], str]:
    message = choice["message"]
    calls = [call["function"] for call in message.get("tool_calls", ())]
    return (
        message["content"] or "",
        message.get("reasoning_content", ""),
        [(call["name"], call["arguments"]) for call in calls],
        choice["finish_reason"],
    )


def collected(body: str) -> tuple[str, str, list[tuple[str, str]], str]:
    chunks = [json.loads(line.removeprefix("data: ")) for line in events(body)[:-1]]
    choices = [chunk["choices"][0] for chunk in chunks]
    deltas = [choice["delta"] for choice in choices]
    calls: list[tuple[str, str]] = []
    for part in (part for delta in deltas for part in delta.get("tool_calls", ())):
        if "id" in part:
            assert part["index"] == len(calls)
            calls.append((part["function"]["name"], ""))
        else:
            name, arguments = calls[part["index"]]
            calls[part["index"]] = (name, arguments + part["function"]["arguments"])
    return (
        "".join(delta.get("content") or "" for delta in deltas),
        "".join(delta.get("reasoning_content", "") for delta in deltas),
        calls,
        choices[-1]["finish_reason"],
    )


PARIS = ("get_weather", '{"city":"Paris"}')


@pytest.mark.parametrize("model", [*CALLING, UNKNOWN])
def test_required_calls(models: Server, model: str) -> None:
    messages = calling(1, 1)
    if model in ("mistral-small-3.2", "ministral-3"):
        # These templates have a long one of their own.
        messages.insert(0, {"role": "system", "content": "Be brief."})
    choice = chat(models, model, messages, tools=TOOLS, tool_choice="required", parallel_tool_calls=False)
    assert shown(choice) == ("", "", [PARIS], "tool_calls")
    ids = [call["id"] for call in choice["message"]["tool_calls"]]
    if "istral" in model:
        assert all(len(id_) == 9 and id_.isalnum() for id_ in ids)


@pytest.mark.parametrize("model", ["qwen-3", "qwen-3-coder"])
@pytest.mark.parametrize("is_parallel", [True, False])
def test_calls_after_their_trigger(models: Server, model: str, is_parallel: bool) -> None:
    choice = chat(models, model, calling(2), tools=TOOLS, parallel_tool_calls=is_parallel)
    assert shown(choice) == ("", "", [PARIS] * (2 if is_parallel else 1), "tool_calls")


CODE = 'print("<b>x</b>")\n\nreturn {"a": 1}'


@pytest.mark.parametrize("model", ["qwen-3-coder", "glm-4.6"])
def test_texts_between_tags_are_taken_as_they_are(models: Server, model: str) -> None:
    """Quotes, line ends and other tags: the model copies the text that it has been shown."""
    arguments = json.dumps({"code": CODE, "times": 3})
    function = {"name": "run_code", "arguments": arguments}
    messages: list[dict[str, Any]] = []
    for number in range(2):
        call = {"id": f"call{number}", "type": "function", "function": function}
        messages += [
            {"role": "user", "content": "Run it."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call{number}", "content": "1"},
            {"role": "assistant", "content": "It is 1."},
        ]
    properties = {"code": {"type": "string"}, "times": {"type": "integer"}, "note": {"type": "string"}}
    parameters = {"type": "object", "properties": properties, "required": ["code"]}
    tools = [{"type": "function", "function": {"name": "run_code", "parameters": parameters}}]
    choice = chat(
        models,
        model,
        [*messages, messages[0]],
        tools=tools,
        tool_choice="required",
        parallel_tool_calls=False,
    )
    ((_, made),) = shown(choice)[2]
    assert json.loads(made)["code"] == CODE


def test_calls_and_an_answer_with_a_schema(models: Server) -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
    choice = chat(models, "qwen-3", calling(2), tools=TOOLS, response_format=wanted)
    assert shown(choice)[2] == [PARIS, PARIS]
    messages = [{"role": "user", "content": "Name a city."}]
    choice = chat(models, "qwen-3", messages, tools=TOOLS, response_format=wanted)
    assert list(json.loads(choice["message"]["content"])) == ["city"]
    body = {"model": "own-header-tools", "messages": messages, "tools": TOOLS, "response_format": wanted}
    refused = post(models.port, "/v1/chat/completions", body)
    assert (refused.status, refused.json["error"]["param"]) == (400, "response_format")


def test_no_calls_where_none_are_wanted(models: Server) -> None:
    choice = chat_whole(models, "qwen-3", calling(2), tools=TOOLS, tool_choice="none", max_tokens=24)
    assert "tool_calls" not in choice["message"]


def test_a_brace_begins_a_call(models: Server) -> None:
    messages = [{"role": "user", "content": "Weather in Paris?"}]
    only_paris = {"type": "object", "properties": {"city": {"enum": ["Paris"]}}, "required": ["city"]}
    tools = [{"type": "function", "function": {"name": "get_weather", "parameters": only_paris}}]
    assert chat(models, "own-header-tools", messages, tools=tools)["finish_reason"] != "tool_calls"
    # The bias makes the model begin with a brace.
    (brace,) = post(models.port, "/tokenize", {"model": "own-header-tools", "content": "{"}).json["tokens"]
    choice = chat(models, "own-header-tools", messages, tools=tools, logit_bias={str(brace): 100})
    assert shown(choice) == ("", "", [PARIS], "tool_calls")


@pytest.mark.parametrize("max_tokens", range(1, 5))
def test_a_call_that_does_not_fit_is_told_as_cut(models: Server, max_tokens: int) -> None:
    messages = [{"role": "user", "content": "Weather in Paris?"}]
    model = "tiny-own-header-tools"
    (brace,) = post(models.port, "/tokenize", {"model": model, "content": "{"}).json["tokens"]
    # A stream may show more of what came before the turn was cut, if the model is this fast.
    choice = chat_whole(
        models,
        model,
        messages,
        tools=TOOLS,
        logit_bias={str(brace): 100},
        max_tokens=max_tokens,
    )
    content, _, calls, reason = shown(choice)
    assert (content.startswith("{") or bool(calls), reason) == (True, "length")
    assert 1 <= choice["usage"]["completion_tokens"] <= max_tokens
    assert choice["usage"]["prompt_tokens"] > 10


@pytest.mark.parametrize(
    ("path", "conversation", "field"),
    [
        ("/v1/chat/completions", "messages", "max_tokens"),
        ("/v1/chat/completions", "messages", "max_completion_tokens"),
        ("/v1/responses", "input", "max_output_tokens"),
    ],
)
def test_a_budget_without_room_for_a_call_is_refused_by_its_own_name(
    models: Server, path: str, conversation: str, field: str
) -> None:
    item = tool("get_weather")
    tools = [item if path.endswith("completions") else {"type": "function", **item["function"]}]
    body = {"model": "tiny-qwen-3", conversation: calling(1)[:1], "tools": tools, "tool_choice": "required"}
    error = post(models.port, path, {**body, field: 2}).json["error"]
    assert (error["param"], error["message"].split(":")[0]) == (field, field)


def test_reasoning_that_is_sent_open_goes_on(models: Server) -> None:
    messages = [*thinking(), {"role": "assistant", "content": "<think>\nThey ask"}]
    body = {"continue_final_message": True, "add_generation_prompt": False}
    choice = chat(models, "thinking", messages, **body)
    assert shown(choice) == ("Paris is a city.", " about Paris.", [], "stop")


def test_an_answer_begins_in_the_token_that_ends_the_reasoning(models: Server) -> None:
    messages = thinking()
    for message in messages:
        if message["role"] == "assistant":
            city = message["content"].split()[0]
            message["content"] = f'"{city}" is a city.'
    choice = chat(models, "thinking-tight", messages, chat_template_kwargs={"opens": True})
    assert shown(choice) == ('"Paris" is a city.', "They ask about Paris.", [], "stop")


@pytest.mark.parametrize("opens", [True, False])
@pytest.mark.parametrize("is_document", [True, False])
def test_reasoning_is_split_from_the_answer(models: Server, opens: bool, is_document: bool) -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
    body = {"response_format": wanted} if is_document else {}
    choice = chat(models, "thinking", thinking(), chat_template_kwargs={"opens": opens}, **body)
    answer = '{"city":"Paris"}' if is_document else "Paris is a city."
    assert shown(choice) == (answer, "They ask about Paris.", [], "stop")
    assert 5 < choice["usage"]["completion_tokens_details"]["reasoning_tokens"] < 12


@pytest.mark.parametrize(
    ("opens", "field", "reasoning"),
    [
        (True, "thinking_budget_tokens", "They ask about... enough."),
        # The model draws the line end behind the tag, too.
        (False, "thinking_token_budget", "They ask... enough."),
    ],
)
def test_reasoning_is_closed_at_its_limit(models: Server, opens: bool, field: str, reasoning: str) -> None:
    body = {field: 3, "chat_template_kwargs": {"opens": opens}, "reasoning_budget_message": "... enough."}
    choice = chat(models, "thinking", thinking(), **body)
    assert shown(choice) == ("Paris is a city.", reasoning, [], "stop")
    assert choice["usage"]["completion_tokens_details"]["reasoning_tokens"] == 3


def test_reasoning_is_closed_at_once(models: Server) -> None:
    body = {"thinking_budget_tokens": 0, "chat_template_kwargs": {"opens": True}}
    choice = chat(models, "thinking", thinking(), **body)
    content, *rest = shown(choice)
    assert ("Paris is a city." in content, rest) == (True, ["", [], "stop"])


@pytest.mark.parametrize("opens", [True, False])
def test_reasoning_between_its_tags(models: Server, opens: bool) -> None:
    body = {"chat_template_kwargs": {"opens": opens}}
    # The template has written the tag itself.
    begin = "" if opens else "<think>\n"
    written = f"{begin}They ask about Paris.\n</think>\n\nParis is a city."
    choice = chat(models, "thinking", thinking(), reasoning_format="none", **body)
    assert shown(choice) == (written, "", [], "stop")
    whole = written.replace("\n", "")
    choice = chat(models, "thinking", thinking(), reasoning_format="deepseek-legacy", **body)
    assert shown(choice) == (whole, "They ask about Paris.", [], "stop")
    split = "auto" if opens else "deepseek"
    choice = chat(models, "thinking", thinking(), reasoning_format=split, **body)
    assert shown(choice) == ("Paris is a city.", "They ask about Paris.", [], "stop")


def test_a_tag_in_an_answer_is_text(models: Server) -> None:
    messages = thinking()
    for message in messages:
        if message["role"] == "assistant":
            message["content"] = "Write <think> before it."
    choice = chat(models, "thinking", messages, reasoning_effort="none")
    content, *rest = shown(choice)
    assert (content.strip(), *rest) == ("Write <think> before it.", "", [], "stop")


@pytest.mark.parametrize("model", CALLING)
def test_a_limit_without_room_for_a_long_name_is_refused(models: Server, model: str) -> None:
    tools = [tool(f"get_{'_'.join(['weather'] * 12)}_{number}") for number in range(2)]
    body = {"model": f"tiny-{model}", "messages": calling(1)[:1], "tools": tools, "tool_choice": "required"}
    answer = post(models.port, "/v1/chat/completions", {**body, "max_completion_tokens": 13})
    error = answer.json["error"]
    assert (answer.status, error["param"]) == (400, "max_completion_tokens")
    least = int(error["message"].split(" tokens")[0].rsplit(maxsplit=1)[1])
    assert least > 20
    choice = post(models.port, "/v1/chat/completions", {**body, "max_tokens": least}).json["choices"][0]
    (call,) = choice["message"]["tool_calls"]
    assert call["function"]["name"] in [item["function"]["name"] for item in tools]
    assert list(json.loads(call["function"]["arguments"])) == ["city"]


def test_reasoning_before_a_required_call(models: Server) -> None:
    choice = chat(
        models,
        "thinking",
        thinking(),
        chat_template_kwargs={"opens": True},
        tools=TOOLS,
        tool_choice="required",
    )
    content, reasoning, calls, reason = shown(choice)
    assert (content, reason) == ("", "tool_calls")
    assert reasoning
    assert list(json.loads(calls[0][1])) == ["city"]


@pytest.mark.parametrize(
    ("opens", "max_tokens"), [(True, 6), (True, 12), (True, 60), (False, 8), (False, 60)]
)
def test_reasoning_leaves_room_for_a_document(models: Server, opens: bool, max_tokens: int) -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
    body = {"response_format": wanted, "chat_template_kwargs": {"opens": opens}}
    choice = chat_whole(models, "thinking", thinking(), max_tokens=max_tokens, **body)
    assert list(json.loads(choice["message"]["content"])) == ["city"]
    assert choice["usage"]["completion_tokens"] <= max_tokens
    if max_tokens == 60:
        assert choice["message"]["reasoning_content"] == "They ask about Paris."
    elif max_tokens > 8:
        assert "They ask about Paris.\n</think>".startswith(choice["message"].get("reasoning_content", ""))


@pytest.mark.parametrize(("max_tokens", "num_tools"), [(9, 1), (12, 2), (16, 1), (60, 2)])
def test_reasoning_leaves_room_for_a_call(models: Server, max_tokens: int, num_tools: int) -> None:
    body = {"tools": TOOLS[:num_tools], "tool_choice": "required", "chat_template_kwargs": {"opens": True}}
    choice = chat_whole(models, "thinking", thinking(), max_tokens=max_tokens, **body)
    content, _, calls, _ = shown(choice)
    assert (content, len(calls)) == ("", 1)
    assert list(json.loads(calls[0][1])) == ["city"]
    assert choice["usage"]["completion_tokens"] <= max_tokens


@pytest.mark.parametrize("max_tokens", range(34, 60, 4))
def test_endless_reasoning_leaves_room_for_a_document_and_a_call(models: Server, max_tokens: int) -> None:
    """Random weights never close it."""
    wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
    asked: list[dict[str, Any]] = [
        {"response_format": wanted},
        {"tools": TOOLS[:1], "tool_choice": "required", "max_tokens": 2 * max_tokens},
    ]
    for body in asked:
        choice = chat(
            models,
            "tiny-thinking",
            thinking(),
            **{"max_tokens": max_tokens, "chat_template_kwargs": {"opens": True}, **body},
        )
        content, reasoning, calls, _ = shown(choice)
        document = calls[0][1] if calls else content
        assert (bool(reasoning), bool(calls), list(json.loads(document))) == (True, "tools" in body, ["city"])
        assert choice["usage"]["completion_tokens"] <= body.get("max_tokens", max_tokens)


def test_a_limit_without_room_for_a_document_is_refused_before_reasoning(models: Server) -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
    body = {"model": "thinking", "messages": thinking(), "response_format": wanted}
    for opens in (True, False):
        error = post(
            models.port,
            "/v1/chat/completions",
            {**body, "max_completion_tokens": 2, "chat_template_kwargs": {"opens": opens}},
        ).json["error"]
        assert error["param"] == "max_completion_tokens"


def test_a_begun_call_names_a_tool_that_fits(models: Server) -> None:
    long = tool(f"get_{'_'.join(['weather'] * 12)}")
    for max_tokens in (20, 30):
        choice = chat_whole(
            models,
            "qwen-3",
            calling(2),
            tools=[*TOOLS[:1], long],
            parallel_tool_calls=False,
            max_tokens=max_tokens,
        )
        ((name, arguments),) = shown(choice)[2]
        assert (name, list(json.loads(arguments))) == ("get_weather", ["city"])


def test_reasoning_can_be_turned_off(models: Server) -> None:
    choice = chat(models, "thinking", thinking(), reasoning_effort="none")
    assert "reasoning_content" not in choice["message"]
    assert "Paris is a city." in choice["message"]["content"]


def test_reasoning_that_is_cut_short(models: Server) -> None:
    choice = chat(models, "thinking", thinking(), max_tokens=6, chat_template_kwargs={"opens": True})
    assert choice["finish_reason"] == "length"
    assert choice["message"]["content"] == ""
    assert choice["message"]["reasoning_content"].startswith("They ask")


def test_reasoning_is_an_item_of_a_response(models: Server) -> None:
    items: list[dict[str, Any]] = []
    for message in thinking():
        if reasoning := message.get("reasoning_content"):
            items.append({"type": "reasoning", "content": [{"type": "reasoning_text", "text": reasoning}]})
        items.append({"role": message["role"], "content": message["content"]})
    body = {"model": "thinking", "input": items, "temperature": 0, "max_output_tokens": 60}
    answer = post(models.port, "/v1/responses", body).json
    assert [item["type"] for item in answer["output"]] == ["reasoning", "message"]
    assert answer["output"][0]["content"][0]["text"] == "They ask about Paris."
    assert answer["output"][1]["content"][0]["text"] == "Paris is a city."
    assert answer["usage"]["output_tokens_details"]["reasoning_tokens"] > 5


def blocks_of(message: Any) -> list[dict[str, Any]]:
    """The content of a message as Anthropic's API has it."""
    if message["role"] == "tool":
        return [
            {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
        ]
    thought = message.get("reasoning_content")
    shown = [{"type": "thinking", "thinking": thought, "signature": ""}] if thought else []
    words = [{"type": "text", "text": message["content"]}] if message["content"] else []
    calls = [(call["id"], call["function"]) for call in message.get("tool_calls", ())]
    return [
        *shown,
        *words,
        *(
            {"type": "tool_use", "id": id_, "name": made["name"], "input": json.loads(made["arguments"])}
            for id_, made in calls
        ),
    ]


def anthropic(server: Server, model: str, messages: list[Any], **body: Any) -> Any:
    """The content of a message of Anthropic's dialect, without what differs in each, and why it ended."""
    turns = [
        {"role": "assistant" if message["role"] == "assistant" else "user", "content": blocks_of(message)}
        for message in messages
    ]
    request = {"model": model, "messages": turns, "temperature": 0, "max_tokens": 80, **body}
    answer = post(server.port, "/v1/messages", request)
    assert answer.status == 200, answer.text
    blocks = [{**block, "id": ""} for block in answer.json["content"]]
    return blocks, answer.json["stop_reason"]


def test_reasoning_in_anthropics_dialect(models: Server) -> None:
    words = {"type": "text", "text": "Paris is a city.", "id": ""}
    thought = {"type": "thinking", "thinking": "They ask about Paris.", "signature": "llmserve", "id": ""}
    asked = {"type": "enabled", "budget_tokens": 1024}
    assert anthropic(models, "thinking", thinking(), thinking=asked) == ([thought, words], "end_turn")
    hidden = [{**thought, "thinking": ""}, words]
    assert anthropic(models, "thinking", thinking(), thinking={**asked, "display": "omitted"})[0] == hidden
    (short, answer), _ = anthropic(models, "thinking", thinking(), thinking={**asked, "budget_tokens": 3})
    assert (short["thinking"], answer["type"]) == ("They ask", "text")
    blocks, _ = anthropic(models, "thinking", thinking())
    assert [block["type"] for block in blocks] == ["text"]


@pytest.mark.parametrize("is_parallel", [True, False])
def test_calls_in_anthropics_dialect(models: Server, is_parallel: bool) -> None:
    tools = [{"name": name, "input_schema": SCHEMA} for name in ("get_weather", "get_time")]
    choice = {"type": "auto", "disable_parallel_tool_use": not is_parallel}
    call = {"type": "tool_use", "id": "", "name": "get_weather", "input": {"city": "Paris"}}
    # Otherwise the template writes empty reasoning, which this model has not seen before.
    body = {"tools": tools, "tool_choice": choice, "thinking": {"type": "adaptive"}}
    made = anthropic(models, "qwen-3", calling(2), **body)
    assert made == ([call] * (2 if is_parallel else 1), "tool_use")
