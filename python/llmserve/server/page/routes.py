"""Routes of the pages' files. They need no key: a browser cannot send one for a page."""

from __future__ import annotations

from llmserve.server.page.assets import send_asset
from llmserve.server.web.endpoint import Endpoint, Route, routes_of
from llmserve.server.web.errors import PLAIN
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.parameters import in_path

_FILE = in_path("file", "A file's name.")


def routes() -> list[Route]:
    """All routes."""
    return routes_of(Pages())


class Pages:
    """The documentation, and what both pages are made of."""

    @Endpoint(path="/docs", method="GET", dialect=PLAIN, access="open")
    async def docs(self, exchange: Exchange) -> None:
        """`GET /docs`."""
        await send_asset(exchange, "docs.html")

    @Endpoint(path="/page/{file}", method="GET", dialect=PLAIN, access="open")
    async def file(self, exchange: Exchange) -> None:
        """`GET /page/FILE`."""
        await send_asset(exchange, _FILE.of(exchange.request.scope))
