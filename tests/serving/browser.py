"""Tabs of a real browser, which watch what the pages do, and the steps of a conversation in them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Locator,
    Page,
    Request,
    Route,
    expect,
    sync_playwright,
)

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_MS = 60_000

expect.set_options(timeout=PATIENCE_MS)

OpenTab = Callable[..., Page]
"""Takes a server, a path and Playwright's options of a tab."""


@contextmanager
def run_browser() -> Iterator[Browser]:
    """One process for many tabs; skips the tests where there is no browser."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip("there is no chromium: `scripts/ensure-system tests` installs it on Debian")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program)
        try:
            yield browser
        finally:
            browser.close()


class Tab:
    """A tab with storage of its own. `problems` are what no page of ours may cause."""

    def __init__(self, browser: Browser, port: int, **options: Any) -> None:
        self.origin = f"http://127.0.0.1:{port}"
        self.problems: list[str] = []
        self._context = browser.new_context(base_url=self.origin, **options)
        self._context.set_default_timeout(PATIENCE_MS)
        self.page: Page = self._context.new_page()
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.problems.append(f"uncaught: {error}"))
        self.page.on("request", self._on_request)

    def _on_console(self, message: ConsoleMessage) -> None:
        # A browser reports every status from 400 on as an error of the page.
        if message.type in ("error", "warning") and "responded with a status" not in message.text:
            self.problems.append(f"{message.type}: {message.text}")

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith(f"{self.origin}/"):
            self.problems.append(f"request to elsewhere: {request.url}")

    def close(self) -> None:
        self._context.close()


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
