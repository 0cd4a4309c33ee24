"""An HTTP request as OpenTelemetry's conventions for HTTP servers describe it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from starlette.types import Scope

from llmserve.server.request_notes import notes
from llmserve.server.tracing import RequestEnd, RequestHead
from llmserve.server.web.answer import Answer
from llmserve.server.web.endpoint import Endpoint
from llmserve.server.web.request_id import current_request_id
from llmserve.server.web.request_log import MAX_PATH_LENGTH
from llmserve.server.web.table import own_path

_METHODS = frozenset({"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"})


def http_head(scope: Scope, endpoint: Endpoint) -> RequestHead:
    """What is known when the head of a request has come."""
    route, method = endpoint.shown_path, scope["method"]
    is_known = method in _METHODS
    return RequestHead(
        name=f"{method if is_known else 'HTTP'} {route}",
        attributes={
            "http.request.method": method if is_known else "_OTHER",
            "http.route": route,
            "url.path": own_path(scope)[:MAX_PATH_LENGTH],
            "url.scheme": scope.get("scheme", "http"),
            "network.protocol.version": str(scope.get("http_version", "1.1")),
            "http.response.header.x-request-id": [current_request_id()],
        },
        headers=_headers(scope),
    )


def http_end(answer: Answer) -> RequestEnd:
    """What is known when the answer has been sent, or its client has left."""
    if not answer.has_begun:
        return RequestEnd(attributes={})
    error = notes().error or str(answer.status) if answer.status >= 500 else ""
    return RequestEnd(attributes={"http.response.status_code": answer.status}, error=error)


def _headers(scope: Scope) -> Mapping[str, Sequence[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name, value in scope["headers"]:
        found[name.decode("latin-1")].append(value.decode("latin-1"))
    return dict(found)
