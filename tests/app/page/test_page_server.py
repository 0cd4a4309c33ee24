"""What the page shows of a server and asks of it, and how it fits screens, keyboards and themes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from serving import ServerProcess, get, serve_folder, serve_in_process, serve_with_uvicorn
from serving.browser import OpenTab, answers, ask, set_field

pytestmark = pytest.mark.model

KEY = "right-9f86d081884c7d65"
PHONE = {"width": 360, "height": 640}


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
    # The server's total has no label.
    lines += [f"llmserve_requests_waiting{labels} 7" for labels in ("", '{model="m"}')]
    more = ['llmserve_draft_tokens_total{model="m"} 10', 'llmserve_accepted_tokens_total{model="m"} 5']

    def answer(route: Route) -> None:
        route.fulfill(body="\n".join([*lines, *more]))

    page = open_tab(server, "/docs")
    page.route("**/metrics", answer)
    page.goto("/#live")
    expect(page.locator(".plot", has_text="Time to first token").locator("dd").first).to_have_text("200 ms")
    expect(page.locator(".plot", has_text="Draft acceptance").locator("dd").nth(1)).to_have_text("50 %")
    expect(page.locator(".plot", has_text="Queue").locator("dd").first).to_have_text("7")
    expect(page.locator(".plot", has_text="Gap between tokens")).to_be_hidden()
