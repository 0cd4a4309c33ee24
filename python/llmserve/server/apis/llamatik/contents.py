"""What answers of the Llamatik dialect contain, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llmserve.server.apis.llamatik.answers import OkAnswer
from llmserve.server.web.endpoint import Content, json_of
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.fields import dump
from llmserve.server.web.headers import answer_headers

DONE: Mapping[int, Content] = {200: Content("Done.", json_of(OkAnswer))}

NOT_LOCAL = "Paths are taken from local requests only."
NO_MODEL = "`init` has not succeeded yet."
SESSION_EXPIRED = "The session has expired; the next call begins a new one."


async def send_ok(exchange: Exchange, unknown: Sequence[str]) -> None:
    """Answers that it is done; `unknown` are the request's fields without effect."""
    await exchange.send_json(dump(OkAnswer()), headers=answer_headers(unknown))
