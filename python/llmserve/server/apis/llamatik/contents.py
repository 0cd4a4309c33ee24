"""What answers of the Llamatik dialect contain, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping

from llmserve.server.apis.llamatik.answers import OkAnswer
from llmserve.server.web.endpoint import Content, json_of

DONE: Mapping[int, Content] = {200: Content("Done.", json_of(OkAnswer))}

NOT_LOCAL = "Paths are taken from local requests only."
NO_MODEL = "`init` has not succeeded yet."
SESSION_EXPIRED = "The session has expired; the next call begins a new one."
