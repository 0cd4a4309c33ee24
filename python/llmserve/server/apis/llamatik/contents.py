"""What endpoints of the Llamatik dialect have in common."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from llmserve.server.apis.llamatik.answers import OkAnswer
from llmserve.server.apis.llamatik.errors import LLAMATIK
from llmserve.server.web.endpoint import Content, Endpoint, json_of
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.fields import dump
from llmserve.server.web.headers import answer_headers

get = functools.partial(Endpoint, method="GET", dialect=LLAMATIK)
post = functools.partial(Endpoint, method="POST", dialect=LLAMATIK)

DONE: Mapping[int, Content] = {200: Content("Done.", json_of(OkAnswer))}

NOT_LOCAL = "Paths are taken from local requests only."
NO_MODEL = "`init` has not succeeded yet."
SESSION_EXPIRED = "The session has expired; the next call begins a new one."


async def send_ok(exchange: Exchange, unknown: Sequence[str]) -> None:
    """Answers that it is done; `unknown` are the request's fields without effect."""
    await exchange.send_json(dump(OkAnswer()), headers=answer_headers(unknown))
