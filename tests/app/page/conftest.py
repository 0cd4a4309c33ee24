"""A browser for each file of tests, and tabs in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from serving import Server
from serving.browser import OpenTab, Tab, run_browser


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
