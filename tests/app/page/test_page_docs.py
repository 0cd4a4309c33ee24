"""The documentation in a real browser: it shows everything, and what it sends works."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import expect

from serving import ServerProcess, get, serve_in_process
from serving.browser import OpenTab

pytestmark = pytest.mark.model


def test_the_documentation_shows_every_operation(server: ServerProcess, open_tab: OpenTab) -> None:
    document = get(server.port, "/openapi.json").json
    described = [
        operation["operationId"] for path in document["paths"].values() for operation in path.values()
    ]
    page = open_tab(server, "/docs")
    expect(page.locator("#description")).to_have_text(document["info"]["description"].replace("`", ""))
    assert page.locator(".operation").evaluate_all("all => all.map(({id}) => id)") == described
    assert page.locator(".schema").count() == len(document["components"]["schemas"])
    # Each can be opened.
    page.locator(".operation").evaluate_all("all => all.forEach((node) => { node.open = true; })")
    expect(page.locator(".operation .try")).to_have_count(len(described))
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_label("Filter").fill("embed")
    expect(page.locator("#contents li:visible")).to_have_count(7)


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        ("createChatCompletion", "[DONE]"),
        ("createResponse", "response.output_text.done"),
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


def test_the_documentation_streams_in_every_dialect(
    tiny_model: Path, tmp_path: Path, open_tab: OpenTab
) -> None:
    with serve_in_process(tmp_path) as server:
        page = open_tab(server, "/docs")
        for operation, given, said in (
            ("loadModel", {"path": str(tiny_model)}, "[DONE]"),
            ("completions", {"model": str(tiny_model), "prompt": "sea"}, "[DONE]"),
            ("initGeneration", {"modelPath": str(tiny_model)}, '"ok": true'),
            ("stream", {"prompt": "sea", "maxTokens": 8}, '"event":"done"'),
            ("sieGenerate", {"prompt": "sea"}, '"done":true'),
        ):
            view = page.locator(f"#{operation}")
            view.locator("summary").first.click()
            body = view.get_by_label("Body", exact=True)
            body.fill(json.dumps({**json.loads(body.input_value()), **given}))
            view.get_by_role("button", name="Send").click()
            expect(view.locator(".output")).to_contain_text(said)
