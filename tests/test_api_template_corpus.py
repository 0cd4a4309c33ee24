"""Chat templates: the texts that transformers make, and what a conversation goes on with."""

from __future__ import annotations

import dataclasses
import datetime
import json
import re
from pathlib import Path
from typing import Any

import pytest

from llmserve import TemplateError, templates
from llmserve.templates import environment
from llmserve.templates.chat import ChatTemplates
from llmserve.templates.marks import unmark
from llmserve.types import ModelInfo

DATA = Path(__file__).parent / "data" / "templates"
MANIFEST: list[dict[str, Any]] = json.loads((DATA / "manifest.json").read_text(encoding="utf-8"))
CASES: dict[str, dict[str, Any]] = json.loads((DATA / "cases.json").read_text(encoding="utf-8"))
NOTICE = (DATA / "NOTICE").read_text(encoding="utf-8")
NAMES = [entry["name"] for entry in MANIFEST]
ENTRIES = dict(zip(NAMES, MANIFEST, strict=True))

TURNS: dict[str, dict[str, str]] = json.loads((DATA / "turns.json").read_text(encoding="utf-8"))

# Variants for tools, which fail without.
NEED_TOOLS = {"own-signatures", "own-python-tools"}
# The model itself writes this before its words, as the template has it in earlier turns.
ANSWER_BEGINS = {
    **dict.fromkeys(
        (
            "own-inst-sys",
            "own-inst-alternating",
            "own-inst-tools",
            "own-inst-system",
            "own-user-assistant",
            "own-colon",
        ),
        " ",
    ),
    **dict.fromkeys(("openchat", "rwkv-world"), " "),
    "glm-4.6": "\n<think></think>\n",
    "functionary-3.2": "all\n",
    "gpt-oss": "<|channel|>final<|message|>",
}
# Earlier answers stand without the reasoning that the assistant's turn is begun with.
REWRITE_ANSWERS = {
    "own-documents",
    "deepseek-r1-llama",
    "gemma-4",
    "own-invoke",
    "own-xml-calls",
    "own-toolcall",
    "qwen-3.5",
    "qwq",
}
# Templates without a role for tools.
TAKE_NO_RESULTS = {
    "own-token-turns",
    "own-user-assistant",
    "own-turns",
    "own-turns-bos",
    "granite-3.0",
    "own-inst-sys",
    "own-inst-alternating",
    "mistral-v1",
    "own-inst-system",
    "own-human",
    "phi-3-mini",
    "phi-3-medium",
    "phi-3.5",
    "phi-4",
    "rwkv-world",
}

USER = {"role": "user", "content": "Is it late?"}
AND_NOW = {"role": "user", "content": "And now?"}
CALL = {"id": "a1B2c3D4e", "function": {"name": "get_weather", "arguments": '{"city": "Åre"}'}}
HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": "Rain in Åre?"},
    {"role": "assistant", "content": None, "tool_calls": [{"type": "function", **CALL}]},
    {"role": "tool", "tool_call_id": "a1B2c3D4e", "name": "get_weather", "content": "wet "},
    {"role": "assistant", "content": [{"type": "text", "text": "Yes, "}, {"type": "text", "text": "rain."}]},
    {"role": "user", "content": "Thanks."},
]

# The clock of the expected texts (see data/templates/make.py).
CLOCK = datetime.datetime(2025, 3, 14, 9, 26, 53)


@pytest.fixture(autouse=True)
def frozen_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "now", lambda: CLOCK)


def source(name: str) -> str:
    return (DATA / "jinja" / f"{name}.jinja").read_text(encoding="utf-8")


def expected(name: str) -> dict[str, dict[str, str]]:
    results: dict[str, dict[str, str]] = json.loads((DATA / "expected" / f"{name}.json").read_text("utf-8"))
    return results


@pytest.mark.parametrize("name", NAMES)
def test_a_template_may_be_here(name: str) -> None:
    licence = ENTRIES[name]["licence"]
    if name.startswith("own-"):
        assert licence == "MIT OR Apache-2.0"
        return
    sections = dict(zip(("Apache-2.0", "MIT"), NOTICE.split("\nMIT License "), strict=True))
    assert re.search(rf"^  {re.escape(name)} ", sections[licence], re.MULTILINE)


def test_no_template_is_here_unnamed() -> None:
    assert sorted(path.stem for path in (DATA / "jinja").iterdir()) == sorted(NAMES)
    assert sorted(path.stem for path in (DATA / "expected").iterdir()) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_texts_are_those_of_transformers(name: str) -> None:
    results = expected(name)
    assert results.keys() == CASES.keys()
    for case, result in results.items():
        variables = {"add_generation_prompt": True, **ENTRIES[name]["tokens"], **CASES[case]}
        if "text" in result:
            assert templates.render(source(name), **variables) == result["text"], case
            continue
        with pytest.raises(TemplateError) as failure:
            templates.render(source(name), **variables)
        assert str(failure.value).endswith(result["message"]), case


def chat_templates(name: str) -> ChatTemplates:
    """The template as a model brings it, with the control tokens that its text shows."""
    text, entry = source(name), ENTRIES[name]
    control = {*_CONTROL.findall(text), *entry["tokens"].values(), *entry["end"]}
    unknown: dict[str, Any] = {field.name: None for field in dataclasses.fields(ModelInfo)}
    return ChatTemplates(
        ModelInfo(
            **{
                **unknown,
                "chat_template": text,
                "chat_templates": {},
                "special_tokens": entry["tokens"],
                "control_tokens": sorted(control),
                "end_tokens": entry["end"],
            }
        )
    )


_CONTROL = re.compile(
    r"<\|[^|<>]*\|>|\[/?[A-Z_]+\]|<(?:start|end)_of_turn>|<\|turn>|<turn\|>|</?s>|<\uff5c[^\uff5c<>]*\uff5c>|<SPECIAL_\d+>|\]~b\]"
)


@pytest.mark.parametrize("name", NAMES)
def test_how_a_conversation_goes_on(name: str) -> None:
    if name in NEED_TOOLS:
        with pytest.raises(TemplateError):
            chat_templates(name).next_turn("And now?")
        return
    turn = chat_templates(name).next_turn("And now?")
    parts = {"end_of_turn": turn.end_of_turn, "after_end": turn.after_end, "turn": turn.turn}
    assert parts == TURNS[name]
    if name in REWRITE_ANSWERS:
        return
    # What a session holds after the second turn is what the template makes of the whole conversation.
    begun = chat_templates(name).prompt([USER]).text
    session = begun + ANSWER_BEGINS.get(name, "") + "No." + turn.end_of_turn + turn.turn
    whole = chat_templates(name).prompt([USER, {"role": "assistant", "content": "No."}, AND_NOW])
    assert unmark(session) == whole.text


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_a_conversation_is_dropped(name: str) -> None:
    try:
        text = (
            chat_templates(name)
            .prompt(HISTORY, tools=CASES["tools"]["tools"] if name in NEED_TOOLS else None)
            .text
        )
    except TemplateError as refusal:
        assert any(words in str(refusal) for words in ("roles", "role 'tool'")), refusal
        assert name in TAKE_NO_RESULTS
        return
    assert name not in TAKE_NO_RESULTS
    for words in ("get_weather", "city", "Åre", "wet", "Yes,", "rain.", "Thanks"):
        assert words in text
    assert "None" not in text.replace("= None", "")


@pytest.mark.parametrize("name", NAMES)
def test_a_user_forges_no_control_token(name: str) -> None:
    templates_of_model = chat_templates(name)
    tools = CASES["tools"]["tools"] if name in NEED_TOOLS else None
    control = templates_of_model.prompt([USER], tools=tools)
    assert control.text == unmark(control.marked)
    tokens = sorted(
        {*_CONTROL.findall(source(name)), *ENTRIES[name]["tokens"].values(), *ENTRIES[name]["end"]}
    )
    forged = {"role": "user", "content": f"Is {' '.join(tokens)} {''.join(tokens)} it late?"}
    prompt = templates_of_model.prompt([forged], tools=tools)
    for token in tokens:
        if len(token) > 1:
            assert prompt.marked.count(token) == control.marked.count(token), token
    assert "".join(tokens) in prompt.text
