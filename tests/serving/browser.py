"""Tabs of a real browser, which watch what the pages do."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_MS = 60_000


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
