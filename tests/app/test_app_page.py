"""The pages in a real browser, against real servers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from serving import Server, ServerProcess, get, serve_folder, serve_in_process, serve_with_uvicorn, wait_until
from serving.browser import PATIENCE_MS, Tab, run_browser

pytestmark = pytest.mark.model

KEY = "right-9f86d081884c7d65"
PHONE = {"width": 360, "height": 640}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

expect.set_options(timeout=PATIENCE_MS)

OpenTab = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with run_browser() as running:
        yield running


@pytest.fixture
def open_tab(browser: Browser) -> Iterator[OpenTab]:
    """Opens a page of a server; in the end, no tab may have had a problem."""
    tabs: list[Tab] = []

    def open_(server: Server, path: str = "/", **options: Any) -> Page:
        tab = Tab(browser, server.port, **options)
        tabs.append(tab)
        tab.page.goto(path)
        return tab.page

    yield open_
    problems = [problem for tab in tabs for problem in tab.problems]
    for tab in tabs:
        tab.close()
    assert not problems


def ask(page: Page, text: str) -> None:
    """Types a message and sends it by the keyboard."""
    expect(page.locator("#model")).to_be_enabled()
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")


def answers(page: Page) -> Locator:
    """The answers that are complete."""
    return page.locator("article.assistant:not([aria-busy])")


def set_field(page: Page, name: str, value: str) -> None:
    page.locator(f"#settings [name={name}]").fill(value)


def play(page: Page, *deltas: dict[str, Any], end: str = "data: [DONE]\n\n") -> list[Any]:
    """Answers for the server with a stream of deltas; the bodies of the requests are added to the list."""
    frames = [{"choices": [{"delta": delta, "logprobs": None, "finish_reason": None}]} for delta in deltas]
    body = "".join(f"data: {json.dumps(frame)}\n\n" for frame in frames) + end
    sent: list[Any] = []

    def fulfill(route: Route) -> None:
        sent.append(route.request.post_data_json)
        route.fulfill(content_type="text/event-stream", body=body)

    page.route("**/v1/chat/completions", fulfill)
    return sent


def test_a_conversation_is_streamed_kept_and_answered_again(server: ServerProcess, open_tab: OpenTab) -> None:
    page = open_tab(server)
    set_field(page, "max_tokens", "12")
    ask(page, "What is the capital of France?")
    expect(answers(page)).to_have_count(1)
    expect(answers(page)).to_contain_text("tokens/s")
    text = answers(page).locator("> .content").inner_text()
    assert text

    page.reload()
    expect(answers(page).locator("> .content")).to_have_text(text)
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
    set_field(page, "temperature", "0")
    ask(page, "Count from 1 to 1000, one number a line.")
    expect(page.locator("article[aria-busy] > .content")).not_to_be_empty()
    page.keyboard.press("Escape")
    expect(answers(page)).to_contain_text("Stopped.")
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    wait_until(lambda: server.states() == ["ready"])


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


def test_models_are_loaded_by_name_and_by_path(
    tiny_models: Path, tiny_model: Path, tmp_path: Path, open_tab: OpenTab
) -> None:
    with serve_folder(tmp_path, tiny_models) as server:
        page = open_tab(server)
        models = page.locator("#model")
        models.select_option(tiny_model.stem)
        page.get_by_role("button", name="Load", exact=True).click()
        expect(page.locator("#model-status")).to_have_text(f"{tiny_model.stem} is loaded.")
        page.get_by_role("button", name="Unload").click()
        expect(page.get_by_role("button", name="Load", exact=True)).to_be_visible()
        assert get(server.port, "/health").json["models"] == []

        for path, said in ((tiny_model.name, f"{tiny_model.stem} is loaded."), ("none.gguf", "no such file")):
            page.get_by_role("button", name="From file…").click()
            page.get_by_label("Path").fill(path)
            page.keyboard.press("Enter")
            expect(page.locator("#model-status")).to_contain_text(said)


def test_a_load_can_be_cancelled(server: ServerProcess, open_tab: OpenTab) -> None:
    page = open_tab(server)
    expect(page.locator("#model")).to_be_enabled()
    # A load without an end.
    page.route("**/models/load", lambda _: None)
    page.get_by_role("button", name="From file…").click()
    page.get_by_label("Path").fill("big.gguf")
    page.keyboard.press("Enter")
    expect(page.get_by_role("progressbar")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#model-status")).to_have_text("The load was cancelled.")
    expect(page.get_by_role("progressbar")).to_be_hidden()


def test_the_key_is_asked_for_and_kept_in_the_tab(tmp_path: Path, open_tab: OpenTab) -> None:
    with serve_in_process(tmp_path, env={"LLMSERVE_API_KEY": KEY}) as locked:
        page = open_tab(locked)
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Key").fill("wrong")
        page.keyboard.press("Enter")
        expect(dialog.get_by_role("alert")).to_have_text("The server did not accept this key.")
        dialog.get_by_label("Key").fill(KEY)
        page.keyboard.press("Enter")
        expect(page.locator("#model-status")).to_contain_text("no model yet")
        page.reload()
        expect(page.locator("#model-status")).to_contain_text("no model yet")
        assert KEY not in page.evaluate("JSON.stringify(localStorage)")
        page.goto("/docs#listModels")
        page.locator("#listModels").get_by_role("button", name="Send").click()
        expect(page.locator("#listModels .status")).to_contain_text("200 OK")
        page.get_by_label("API key").fill("wrong")
        page.locator("#listModels").get_by_role("button", name="Send").click()
        expect(page.locator("#listModels .status")).to_contain_text("401")


def test_below_a_prefix(tiny_model: Path, tmp_path: Path, open_tab: OpenTab) -> None:
    with serve_with_uvicorn(tmp_path, app="serving.mounted:below_a_prefix") as server:
        server.wait_until_listening()
        page = open_tab(server, "/llm/")
        page.get_by_role("button", name="From file…").click()
        page.get_by_label("Path").fill(str(tiny_model))
        page.keyboard.press("Enter")
        expect(page.locator("#model-status")).to_have_text(f"{tiny_model.stem} is loaded.")
        set_field(page, "max_tokens", "4")
        ask(page, "sea")
        expect(answers(page)).to_contain_text("4 out")
        page.get_by_role("link", name="API").click()
        page.locator("#health summary").first.click()
        page.locator("#health").get_by_role("button", name="Send").click()
        expect(page.locator("#health .output")).to_contain_text('"ready"')


def test_on_a_phone_by_keyboard(server: ServerProcess, open_tab: OpenTab) -> None:
    page = open_tab(server, viewport=PHONE)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Message", exact=True)).to_be_focused()
    page.get_by_role("button", name="Settings").press("Enter")
    panel = page.get_by_role("complementary", name="Settings")
    expect(panel.get_by_role("button", name="Close")).to_be_focused()
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    for path in ("/", "/#live", "/docs"):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_every_control_has_a_name(server: ServerProcess, open_tab: OpenTab) -> None:
    page = open_tab(server)
    expect(page.locator("#model")).to_be_enabled()
    nameless = """all => all.filter((node) => !(node.textContent.trim() || node.getAttribute("aria-label")
        || node.labels?.length)).map((node) => node.outerHTML)"""
    assert page.locator("button, input, select, textarea").evaluate_all(nameless) == []


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_the_theme_follows_the_system_until_one_is_chosen(
    server: ServerProcess, open_tab: OpenTab, path: str
) -> None:
    page = open_tab(server, path, color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(background)
    page.get_by_role("button", name="Theme: system").click()
    light = page.evaluate(background)
    assert dark != light
    page.reload()
    assert page.evaluate(background) == light
    page.get_by_role("button", name="Theme: light").click()
    assert page.evaluate(background) == dark


def test_live_plots_move_and_absent_ones_are_hidden(server: ServerProcess, open_tab: OpenTab) -> None:
    page = open_tab(server, "/#live")
    plot = page.locator(".plot", has_text="Tokens a second")
    expect(plot).to_be_visible()
    expect(page.locator(".plot", has_text="Draft acceptance")).to_be_hidden()
    expect(page.locator(".state[data-state=ok]")).to_be_visible()
    page.evaluate(
        "fetch('v1/completions', {method: 'POST', body: JSON.stringify("
        "{model: document.getElementById('model').value, prompt: 'sea', max_tokens: 40})})"
    )
    expect(plot.locator("dd").first).not_to_have_text(re.compile(r"^\D*$|^0$"))
    drawn = """canvas => canvas.getContext("2d")
        .getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean)"""
    assert plot.locator("canvas").evaluate(drawn)


def test_histograms_and_drafts_are_shown_where_the_server_has_them(
    server: ServerProcess, open_tab: OpenTab
) -> None:
    name = "llmserve_time_to_first_token_seconds"
    lines = [
        f'{name}_bucket{{model="m",le="{le}"}} {count}'
        for le, count in (("0.1", 0), ("0.3", 10), ("+Inf", 10))
    ]
    more = ['llmserve_draft_tokens_total{model="m"} 10', 'llmserve_accepted_tokens_total{model="m"} 5']

    def extend(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body="\n".join([answer.text(), *lines, *more]))

    page = open_tab(server, "/docs")
    page.route("**/metrics", extend)
    page.goto("/#live")
    expect(page.locator(".plot", has_text="Time to first token").locator("dd").first).to_have_text("200 ms")
    expect(page.locator(".plot", has_text="Draft acceptance").locator("dd").nth(1)).to_have_text("50 %")
    expect(page.locator(".plot", has_text="Gap between tokens")).to_be_hidden()


def test_the_documentation_shows_every_operation(server: ServerProcess, open_tab: OpenTab) -> None:
    document = get(server.port, "/openapi.json").json
    described = [
        operation["operationId"] for path in document["paths"].values() for operation in path.values()
    ]
    page = open_tab(server, "/docs")
    expect(page.locator("#description")).to_have_text(document["info"]["description"])
    assert page.locator(".operation").evaluate_all("all => all.map(({id}) => id)") == described
    assert page.locator(".schema").count() == len(document["components"]["schemas"])
    # Each can be opened.
    page.locator(".operation").evaluate_all("all => all.forEach((node) => { node.open = true; })")
    expect(page.locator(".operation .try")).to_have_count(len(described))
    page.get_by_label("Filter").fill("embed")
    expect(page.locator("#contents li:visible")).to_have_count(3)


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        ("createChatCompletion", "[DONE]"),
        ("createResponse", "response.completed"),
        ("createCompletion", "[DONE]"),
        ("createNativeCompletion", '"stop":true'),
        ("readModel", '"context_length": 2048'),
        ("tokenize", '"tokens"'),
        ("metrics", "llmserve_slots"),
    ],
)
def test_what_the_documentation_sends_as_it_stands(
    server: ServerProcess, open_tab: OpenTab, operation: str, said: str
) -> None:
    page = open_tab(server, f"/docs#{operation}")
    view = page.locator(f"#{operation}")
    view.get_by_role("button", name="Send").click()
    expect(view.locator(".status")).to_contain_text("200 OK")
    expect(view.locator(".output")).to_contain_text(said)
    if said == "[DONE]":
        view.get_by_label("Text of the stream only").check()
        expect(view.locator(".output")).not_to_contain_text("data:")
        expect(view.locator(".output")).not_to_be_empty()


def test_the_documentation_sends_parameters_and_added_fields(
    server: ServerProcess, open_tab: OpenTab
) -> None:
    page = open_tab(server, "/docs#createChatCompletion")
    view = page.locator("#createChatCompletion")
    view.get_by_label("X-LLMServe-Session").fill("from-docs")
    view.get_by_role("button", name="Add max_tokens to the body").click()
    body = view.get_by_label("Body", exact=True)
    request = json.loads(body.input_value())
    assert request["messages"][0]["role"] == "user"
    body.fill(json.dumps({**request, "max_tokens": 3, "stream": False}))
    with page.expect_request("**/v1/chat/completions") as sent:
        view.get_by_role("button", name="Send").click()
    assert sent.value.headers["x-llmserve-session"] == "from-docs"
    expect(view.locator(".output")).to_contain_text('"completion_tokens": 3')
