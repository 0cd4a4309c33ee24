"""What answers of the Llamatik dialect contain, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping

from llmserve.server.apis.llamatik.answers import LlamatikError
from llmserve.server.web.endpoint import FORBIDDEN, Content, json_of

ERROR = json_of(LlamatikError)
NO_MODEL = Content("`init` has not succeeded yet.", ERROR)

COMMON: Mapping[int, Content] = {
    400: Content("Malformed body, or a field that is missing, of a wrong type or out of range.", ERROR),
    403: Content(FORBIDDEN, ERROR),
    408: Content("The body did not arrive in time.", ERROR),
    413: Content("The body is over the limit.", ERROR),
    503: Content("The server is draining; see `Retry-After`.", ERROR),
}


def responses_with(
    cls: type, description: str, more: Mapping[int, Content] | None = None
) -> Mapping[int, Content]:
    """An answer of 200, and the errors that most routes have."""
    return {200: Content(description, json_of(cls)), **COMMON, **(more or {})}


SESSION_EXPIRED = Content("The session has expired; the next call begins a new one.", ERROR)
