"""The entrance: reads requests, has them routed, and passes the answers on.

Ray's HTTP proxy knows only the head of a request when it chooses a replica. The beginning of the prompt is in
the body, so something behind the proxy has to read that, which is this.
"""

from __future__ import annotations

import logging
from typing import Any

from ray.exceptions import RayActorError
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from llmserve.ray.calls import ClientLeftError, Head, read_call

logger = logging.getLogger(__name__)

_OF_PROXY = (b"x-request-id",)
"""Headers that the proxy adds by itself, with the same values."""


class Ingress:
    """Passes HTTP requests to replicas. It holds no model."""

    def __init__(self, replicas: DeploymentHandle[Any], max_body_bytes: int) -> None:
        self._serve = replicas.options(stream=True).serve
        self._max_body_bytes = max_body_bytes

    async def __call__(self, request: Request) -> Response:
        """Serves a request."""
        try:
            call = await read_call(request.scope, request.receive, self._max_body_bytes)
        except ClientLeftError:
            return Response(status_code=499)
        return _Passed(self._serve.remote(call))


class _Passed(Response):
    """A replica's answer, part by part."""

    def __init__(self, parts: Any) -> None:
        super().__init__()
        self._parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the answer."""
        has_begun = False
        try:
            async for part in self._parts:
                if isinstance(part, Head):
                    headers = [(name, value) for name, value in part.headers if name not in _OF_PROXY]
                    await send({"type": "http.response.start", "status": part.status, "headers": headers})
                    has_begun = True
                else:
                    await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (RayActorError, RayServeException) as error:
            if has_begun:
                raise
            await _unavailable(error)(scope, receive, send)
        finally:
            # Does nothing to an answer that is complete; else the client has left.
            self._parts.cancel()


def _unavailable(error: Exception) -> Response:
    logger.warning("a request has lost its replica: %s", type(error).__name__)
    fault = {
        "message": "the replica of this request is gone or too busy: try again",
        "type": "service_unavailable",
        "code": "replica_unavailable",
    }
    return JSONResponse({"error": fault}, 503, {"Retry-After": "1"})
