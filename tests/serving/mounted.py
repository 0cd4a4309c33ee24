"""The application behind a function-style middleware, as authors of other applications write them."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount

from llmserve.app import app as llmserve_app


async def stamp(request: Request, call_next: RequestResponseEndpoint) -> Response:
    """Adds a header, which is what such middleware typically does."""
    response = await call_next(request)
    response.headers["X-Stamp"] = "yes"
    return response


behind_middleware = BaseHTTPMiddleware(llmserve_app, dispatch=stamp)
"""Around the whole application, lifespan included."""

below_a_prefix = Starlette(
    routes=[Mount("/llm", llmserve_app)], middleware=[Middleware(BaseHTTPMiddleware, dispatch=stamp)]
)
"""Mounted into another application, which gives it no lifespan."""
