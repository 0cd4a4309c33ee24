"""Routes of the dialect."""

from __future__ import annotations

from llmserve.server.apis.anthropic.messages import MessagesApi
from llmserve.server.services import Services
from llmserve.server.web.endpoint import Route, routes_of


def routes(services: Services) -> list[Route]:
    """Everything that the dialect serves."""
    return routes_of(MessagesApi(services))
