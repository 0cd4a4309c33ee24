"""The errors that an endpoint can answer with: its own, and those of what stands before every handler.

The latter follow from what the endpoint is: who may call it, whether it reads a body.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from llmserve.server import refusals
from llmserve.server.web.endpoint import Endpoint
from llmserve.server.web.error_table import rule_of

_FOREIGN = "The request came from a page of another site, or under a host name that is not allowed."


def _reads_body(endpoint: Endpoint) -> bool:
    return endpoint.body is not None


_COMMON: tuple[tuple[type[refusals.Refusal], str, Callable[[Endpoint], bool]], ...] = (
    # Of the gate.
    (refusals.ForeignOriginError, _FOREIGN, lambda endpoint: True),
    (
        refusals.UnauthorizedError,
        "The server requires an API key, and the request has none or a wrong one.",
        lambda endpoint: endpoint.access != "open",
    ),
    (
        refusals.ServerDrainingError,
        "The server is draining; see `Retry-After`.",
        lambda endpoint: not endpoint.is_probe,
    ),
    # Of the reader of bodies.
    (refusals.MalformedBodyError, "The body is malformed, or a field is missing or wrong.", _reads_body),
    (refusals.BodyTimeoutError, "The body did not arrive in time.", _reads_body),
    (refusals.BodyTooLargeError, "The body is over the limit.", _reads_body),
    (
        refusals.BodiesFullError,
        "The bodies of other requests take all memory that there is for them; see `Retry-After`.",
        _reads_body,
    ),
)
"""Refusals, what they mean, and which endpoints have them. `ForeignHostError` is described with the first."""


def declared_errors(endpoint: Endpoint, *, needs_key: bool) -> Mapping[int, str]:
    """Status -> what it means, of a server that may ask for an API key."""
    texts: dict[int, list[str]] = {status: [text] for status, text in endpoint.errors.items()}
    for refusal, text, applies in _COMMON:
        if applies(endpoint) and (needs_key or refusal is not refusals.UnauthorizedError):
            texts.setdefault(rule_of(refusal).status_for(endpoint.dialect.name), []).append(text)
    return {status: " ".join(texts[status]) for status in sorted(texts)}
