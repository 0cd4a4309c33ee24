"""What is known of models' formats, without a model."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llmserve.server.conversation import Tool
from llmserve.server.conversation.fallback import with_tools
from llmserve.server.conversation.known_formats import HERMES as KNOWN_HERMES
from llmserve.server.conversation.known_formats import TOOL_CALL_TOKEN, format_of
from llmserve.server.conversation.reasoning import tags_of
from llmserve.server.conversation.roles import with_known_roles
from llmserve.server.conversation.tool_formats import PLAIN, ToolFormat
from llmserve.server.conversation.trim import Trim
from llmserve.templates.capabilities import capabilities
from serving.tool_formats import (
    COMMAND,
    DEEPSEEK,
    DEEPSEEK_FENCED,
    FUNCTION_TAG,
    GEMMA,
    GLM_XML,
    HARMONY,
    HERMES,
    LLAMA_3,
    MINIMAX_XML,
    MISTRAL,
    MISTRAL_ARGS,
    MISTRAL_IDS,
    QWEN_XML,
    SEED_XML,
    TOOLCALL,
)

DATA = Path(__file__).parent.parent / "data" / "templates"
TEMPLATES, EXPECTED = DATA / "jinja", DATA / "expected"


def template(name: str) -> str:
    return (TEMPLATES / f"{name}.jinja").read_text()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("own-signatures", HERMES),
        ("qwen-2.5", HERMES),
        ("qwen-3", HERMES),
        ("qwq", HERMES),
        ("granite-4.0", HERMES),
        ("qwen-3-coder", QWEN_XML),
        ("qwen-3.5", QWEN_XML),
        ("own-xml-calls", QWEN_XML),
        ("glm-4.6", GLM_XML),
        ("seed-oss", SEED_XML),
        ("own-invoke", MINIMAX_XML),
        ("own-toolcall", TOOLCALL),
        ("deepseek-v3.1", DEEPSEEK),
        ("deepseek-r1-llama", DEEPSEEK_FENCED),
        ("own-header-tools", LLAMA_3),
        ("own-header-date", LLAMA_3),
        ("own-inst-tools", MISTRAL),
        ("mistral-nemo", replace(MISTRAL, head=MISTRAL.head.replace(" ", "", 1))),
        ("mistral-small-3.2", MISTRAL_IDS),
        ("devstral", MISTRAL_ARGS),
        ("ministral-3", MISTRAL_ARGS),
        ("functionary-3.1", FUNCTION_TAG),
        ("granite-3.3", TOOL_CALL_TOKEN),
        ("own-documents", COMMAND),
        ("gemma-4", GEMMA),
        ("gpt-oss", HARMONY),
        ("smollm2", PLAIN),
        ("chatml", PLAIN),
        ("own-turns-bos", PLAIN),
    ],
)
def test_what_is_read_off_a_template_is_the_known_format(name: str, expected: ToolFormat) -> None:
    assert format_of(template(name)) == expected


def two_calls(tool_format: ToolFormat) -> str:
    """What a model writes that looks twice for the weather."""
    heads = (tool_format.head, tool_format.next_head)
    text = ""
    for head, city, number in zip(heads, ("Oslo", "Åre"), ("a1B2c3D4e", "f5G6h7I8j"), strict=True):
        tags = tool_format.tags
        arguments = json.dumps({"city": city}, ensure_ascii=False)
        if tags is not None:
            arguments = f"{tags.before_name}city{tags.after_name}{city}{tags.after_value}"
        after_name = tool_format.after_name.replace("{id}", number)
        text += f"{head}get_weather{after_name}{arguments}{tool_format.after_arguments}"
    return text


@pytest.mark.parametrize(
    "name",
    [
        "qwen-2.5",
        "qwen-3",
        "granite-4.0",
        "qwen-3-coder",
        "qwen-3.5",
        "own-xml-calls",
        "glm-4.6",
        "seed-oss",
        "own-invoke",
        "mistral-small-3.2",
        "devstral",
        "ministral-3",
        "deepseek-v3.1",
        "own-toolcall",
    ],
)
def test_calls_are_put_in_as_the_template_shows_them(name: str) -> None:
    expected = json.loads((EXPECTED / f"{name}.json").read_text())["two tool calls"]["text"]
    written = two_calls(format_of(template(name)))
    # Blanks of JSON and the line end before another call differ, harmlessly.
    assert re.sub(r"\s", "", written) in re.sub(r"\s", "", expected)


def test_the_table_has_the_same_for_templates_that_show_no_calls() -> None:
    assert KNOWN_HERMES == HERMES


@pytest.mark.parametrize("tool_format", [HERMES, LLAMA_3, MISTRAL, TOOL_CALL_TOKEN, PLAIN])
def test_texts_around_calls_make_json(tool_format: ToolFormat) -> None:
    text = f'{tool_format.head}f{tool_format.after_name}{{"a":1}}{tool_format.after_arguments}'
    call = json.loads(re.search(r"\{.*\}", text, re.DOTALL)[0])  # type: ignore[index]
    assert call["name"] == "f"
    assert call.get("arguments", call.get("parameters")) == {"a": 1}


def test_no_name_is_taken_for_the_beginning_of_another() -> None:
    pattern = HERMES.name_pattern(["get", "get_all", "a.b"])
    for name in ("get", "get_all", "a.b"):
        assert re.fullmatch(pattern, name + '"')
    for other in ("get", "axb" + '"', "get_" + '"'):
        assert not re.fullmatch(pattern, other)


@pytest.mark.parametrize(
    ("name", "opened"),
    [
        ("qwen-3", "<think>"),
        ("deepseek-r1-llama", "<think>"),
        ("seed-oss", "<seed:think>"),
        ("smollm2", None),
    ],
)
def test_tags_of_reasoning(name: str, opened: str | None) -> None:
    tags = tags_of(template(name))
    assert (tags.open if tags else None) == opened


def test_where_reasoning_may_begin() -> None:
    tags = tags_of("<think>")
    assert tags is not None
    assert tags.is_open("<|im_start|>assistant\n<think>\n")
    assert not tags.may_open("<|im_start|>assistant\n<think>\n")
    assert tags.may_open("<|im_start|>assistant\n")
    assert not tags.is_open("a <think> b")
    assert not tags.may_open("assistant\n<think>\n\n</think>\n\n")


def test_trim() -> None:
    trim = Trim(start=True, end=True)
    assert [trim.push(text) for text in (" \n", " a", " ", "\n", "b", " ")] == ["", "a", "", "", " \nb", ""]
    assert trim.flush() == " "
    free = Trim(start=False, end=False)
    assert [free.push(text) for text in (" ", "a ")] == [" ", "a "]


TOOL = Tool(name="f", description="D", parameters={"type": "object", "properties": {"a": {}}})


def test_tools_of_a_model_without_tools_are_text() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "r"},
    ]
    shown = with_tools(messages, [TOOL])
    assert [message["role"] for message in shown] == ["system", "user", "assistant", "user"]
    assert shown[0]["content"].startswith("S\n\n")
    assert '"name": "f"' in shown[0]["content"]
    assert json.loads(shown[2]["content"]) == {"name": "f", "arguments": {"a": 1}}
    assert "tool_calls" not in shown[2]
    assert shown[3]["content"].endswith(": r")
    assert with_tools(messages[1:2], [TOOL])[0]["role"] == "system"
    parts = [{"type": "text", "text": "S"}]
    assert len(with_tools([{"role": "system", "content": parts}], [TOOL])[0]["content"]) == 2
    assert with_tools(messages, ())[0] == messages[0]
    for content in ("u", [{"type": "text", "text": "u"}]):
        (first,) = with_tools([{"role": "user", "content": content}], [TOOL], has_system=False)
        assert (first["role"], '"name": "f"' in str(first["content"])) == ("user", True)
        assert str(first["content"]).count("u") > str(content).count("u")


def test_arguments_can_be_nested_to_any_depth() -> None:
    for depth in range(900, 1100):
        # At one of them, what could be read cannot be written.
        call = {"function": {"name": "f", "arguments": "[" * depth + "]" * depth}}
        (message,) = with_tools([{"role": "assistant", "tool_calls": [call]}], ())
        assert "[" * depth in message["content"]


def test_a_tool_without_parameters_takes_none() -> None:
    assert Tool(name="f").schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert Tool(name="f", parameters={}).schema == {"type": "object"}
    empty = {"type": "object", "properties": {}}
    assert Tool(name="f", parameters={"title": "F", "required": [], **empty}).schema == Tool(name="f").schema
    opened = {**empty, "additionalProperties": True}
    assert Tool(name="f", parameters=opened).schema == opened
    assert "additionalProperties" not in TOOL.schema


ONE_SYSTEM = (
    "{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
    "{{ raise_exception('system must come first') }}{% endif %}[{{ m.role }}]{{ m.content }}{% endfor %}"
)
ANY_SYSTEM = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (ONE_SYSTEM, [("system", "S\n\nD"), ("user", "u")]),
        (ANY_SYSTEM, [("system", "S"), ("system", "D"), ("user", "u")]),
        (ANY_SYSTEM + "{# developer #}", [("system", "S"), ("developer", "D"), ("user", "u")]),
    ],
)
def test_a_developer_beside_a_system_is_merged_where_one_is_taken(
    source: str, expected: list[tuple[str, str]]
) -> None:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "S"},
        {"role": "developer", "content": [{"type": "text", "text": "D"}]},
        {"role": "user", "content": "u"},
    ]
    shown = with_known_roles(messages, source, takes_systems=capabilities(source).takes_systems)
    texts = [(message["role"], message["content"]) for message in shown]
    assert [(role, text if isinstance(text, str) else text[0]["text"]) for role, text in texts] == expected
