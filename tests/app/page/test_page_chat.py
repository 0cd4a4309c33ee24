"""Conversations in a real browser."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect

from serving import ServerProcess, wait_until
from serving.browser import OpenTab, answers, ask, play, set_field

pytestmark = pytest.mark.model

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def test_a_conversation_is_streamed_kept_and_answered_again(server: ServerProcess, open_tab: OpenTab) -> None:
    page = open_tab(server)
    set_field(page, "max_tokens", "12")
    set_field(page, "temperature", "0")
    ask(page, "What is the capital of France?")
    expect(answers(page)).to_have_count(1)
    expect(answers(page)).to_contain_text("tokens/s")
    text = answers(page).locator("> .content").inner_text()
    assert text

    page.reload()
    expect(answers(page).locator("> .content")).to_have_text(text, use_inner_text=True)
    assert page.locator("[name=max_tokens]").input_value() == "12"
    page.get_by_role("button", name="Regenerate").click()
    expect(answers(page)).to_contain_text("cached")

    page.get_by_role("button", name="Edit").click()
    page.locator("article.user textarea").fill("What is the capital of Spain?")
    page.get_by_role("button", name="Send again").click()
    expect(answers(page)).to_have_count(1)
    expect(page.locator("article.user")).to_have_text(re.compile("Spain"))


def test_escape_stops_an_answer(server: ServerProcess, open_tab: OpenTab) -> None:
    page = open_tab(server)
    page.get_by_label("JSON document").check()
    set_field(page, "schema", json.dumps({"type": "array", "items": {"type": "boolean"}, "minItems": 900}))
    ask(page, "Go on")
    expect(page.locator("article[aria-busy] > .content")).not_to_be_empty()
    page.keyboard.press("Escape")
    expect(answers(page)).to_contain_text("Stopped.")
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    wait_until(lambda: server.states() == ["ready"])


def test_messages_are_edited_and_answered_again_by_keyboard(server: ServerProcess, open_tab: OpenTab) -> None:
    page = open_tab(server)
    expect(page.get_by_label("Message", exact=True)).to_be_focused()
    set_field(page, "max_tokens", "4")
    ask(page, "first")
    expect(answers(page)).to_contain_text("4 out")
    edit = page.get_by_role("button", name="Edit")
    edit.press("Enter")
    page.keyboard.type("lost")
    page.keyboard.press("Escape")
    expect(edit).to_be_focused()
    user = page.locator("article.user > .content")
    expect(user).to_have_text("first")
    page.keyboard.press("Enter")
    page.keyboard.type(" of all")
    page.keyboard.press("Enter")
    expect(user).to_have_text("first of all")
    expect(answers(page)).to_contain_text("4 out")
    page.get_by_role("button", name="Regenerate").press("Enter")
    # What can be done now has the focus.
    expect(page.locator("#send")).to_be_focused()
    expect(answers(page)).to_contain_text("cached")


def test_a_document_follows_its_schema(server: ServerProcess, open_tab: OpenTab) -> None:
    page = open_tab(server)
    page.get_by_label("JSON document").check()
    set_field(page, "schema", json.dumps(CITY))
    set_field(page, "max_tokens", "30")
    ask(page, "Paris as JSON")
    expect(answers(page)).to_have_count(1)
    text = answers(page).locator("pre.json").inner_text()
    assert list(json.loads(text)) == ["city"]
    assert text.startswith('{\n  "city": ')


def test_tokens_show_their_probabilities_to_mouse_and_keyboard(
    server: ServerProcess, open_tab: OpenTab
) -> None:
    page = open_tab(server)
    page.get_by_label("Probabilities of tokens").check()
    set_field(page, "max_tokens", "8")
    set_field(page, "temperature", "0")
    set_field(page, "top_logprobs", "3")
    ask(page, "Say hello.")
    expect(answers(page)).to_have_count(1)
    tokens = answers(page).locator(".token")
    tokens.nth(1).hover()
    tip = page.get_by_role("tooltip")
    expect(tip.locator("tr").nth(2)).to_contain_text("%")
    page.mouse.move(0, 0)
    expect(tip).to_be_hidden()
    tokens.first.focus()
    page.keyboard.press("ArrowRight")
    expect(tokens.nth(1)).to_be_focused()
    expect(tip).to_be_visible()
    # Without the marks it is the same text.
    shown = "".join(tokens.all_text_contents()).removesuffix("<|im_end|>")
    answers(page).get_by_role("button", name="Tokens").click()
    expect(tokens).to_have_count(0)
    assert answers(page).locator("> .content").inner_text().split() == shown.split()


def test_reasoning_is_folded_and_calls_are_shown_and_answered(
    server: ServerProcess, open_tab: OpenTab
) -> None:
    page = open_tab(server)
    expect(page.locator("#model")).to_be_enabled()
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "time", "arguments": '{"zone":'}}
    sent = play(
        page,
        {"reasoning_content": "They want the **time**."},
        {"content": "One moment."},
        {"tool_calls": [call]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '"UTC"}'}}]},
    )
    ask(page, "What time is it?")
    answer = answers(page).first
    expect(answer.locator(".thoughts strong")).to_be_hidden()
    answer.get_by_text("Reasoning").click()
    expect(answer.locator(".thoughts strong")).to_have_text("time")
    assert json.loads(answer.locator(".call pre").inner_text()) == {"zone": "UTC"}

    answer.get_by_label("Result of the call").fill("12:00")
    page.keyboard.press("Enter")
    expect(answers(page)).to_have_count(2)
    *_, asked, result = sent[1]["messages"]
    assert asked["tool_calls"][0]["function"] == {"name": "time", "arguments": '{"zone":"UTC"}'}
    assert result == {"role": "tool", "content": "12:00", "tool_call_id": "c1"}


def test_an_error_in_a_stream_is_shown_beside_the_text_so_far(
    server: ServerProcess, open_tab: OpenTab
) -> None:
    page = open_tab(server)
    expect(page.locator("#model")).to_be_enabled()
    play(page, {"content": "So far"}, end='data: {"error": {"message": "the engine died"}}\n\n')
    ask(page, "Go on")
    expect(answers(page)).to_contain_text("So far")
    expect(answers(page).locator(".problem")).to_have_text("the engine died")


def test_refusals_are_shown_in_the_servers_words(server: ServerProcess, open_tab: OpenTab) -> None:
    page = open_tab(server)
    page.get_by_label("JSON document").check()
    set_field(page, "schema", '{"type": "nonsense"}')
    ask(page, "Go on")
    expect(answers(page).locator(".problem")).to_contain_text("nonsense")
    set_field(page, "schema", "{")
    ask(page, "Go on")
    expect(answers(page).locator(".problem")).to_contain_text("The JSON Schema could not be read")
    expect(page.locator("article.user")).to_have_count(2)


def test_models_text_never_becomes_markup(server: ServerProcess, open_tab: OpenTab) -> None:
    page = open_tab(server)
    expect(page.locator("#model")).to_be_enabled()
    text = """# Title
<img src=x onerror=alert(1)> [a](javascript:alert(1)) [b](https://example.com/x_(y)) https://example.com/z.

1. one **bold *both***
   - `code` ~~gone~~ snake_case_name

| a | b |
|---|--:|
| 1 | 2 |

```html
<script>alert(1)</script>
```
> quote"""
    play(page, {"content": text})
    ask(page, "Go on")
    content = answers(page).locator("> .content")
    expect(content.locator("blockquote")).to_have_text("quote")
    assert content.locator("img, script, [onerror]").count() == 0
    links = content.locator("a").evaluate_all("all => all.map((a) => [a.href, a.rel])")
    rel = "noopener noreferrer nofollow"
    assert links == [["https://example.com/x_(y)", rel], ["https://example.com/z", rel]]
    assert content.locator("ol > li > strong > em").inner_text() == "both"
    assert content.locator("ol ul > li").inner_text() == "code gone snake_case_name"
    assert content.locator("td.right").inner_text() == "2"
    assert content.locator("pre code").inner_text() == "<script>alert(1)</script>"
    assert content.locator("h3").inner_text() == "Title"


def test_the_next_request_as_code(server: ServerProcess, open_tab: OpenTab) -> None:
    page = open_tab(server)
    set_field(page, "top_k", "40")
    page.get_by_label("Message", exact=True).fill('It\'s "here"')
    page.get_by_role("button", name="As code").click()
    curl, python = page.locator("dialog pre").all_inner_texts()
    assert f"{server.port}/v1/chat/completions --json '" in curl
    assert "It'\\''s" in curl
    compile(python, "example", "exec")
    assert 'extra_body={"top_k": 40}' in python


def test_conversations_have_names_and_can_be_deleted(server: ServerProcess, open_tab: OpenTab) -> None:
    page = open_tab(server)
    expect(page.locator("#model")).to_be_enabled()
    play(page, {"content": "Yes."})
    for text in ("first", "second"):
        page.get_by_role("button", name="New conversation").click()
        ask(page, text)
        expect(answers(page)).to_have_count(1)
    page.get_by_role("button", name="first", exact=True).click()
    page.get_by_label("Name of the conversation").fill("Renamed")
    page.keyboard.press("Enter")
    page.reload()
    names = page.locator("#conversations .name")
    expect(names).to_have_text(["Renamed", "second"])
    page.get_by_role("button", name="Delete Renamed").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(names).to_have_text(["second"])
