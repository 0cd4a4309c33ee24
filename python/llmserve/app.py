"""The ASGI application that ``uvicorn llmserve.app:app`` serves, with settings from the environment."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache

from starlette.types import ASGIApp, Receive, Scope, Send

from llmserve.server.application import Application
from llmserve.server.settings import SettingsError, parse_settings


class BrokenApplication:
    """Stands in for the application where the settings are wrong: the server ends with the reason."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Fails the lifespan, or each request if there is no lifespan."""
        if scope["type"] != "lifespan":
            raise SettingsError(self.reason)
        await receive()
        await send({"type": "lifespan.startup.failed", "message": self.reason})


@cache
def _default_app() -> Application | BrokenApplication:
    try:
        return Application(parse_settings(os.environ))
    except SettingsError as error:
        return BrokenApplication(str(error))


class DefaultApplication:
    """The application with settings from the environment, which is read at the first call."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the call on."""
        await _default_app()(scope, receive, send)


app: ASGIApp = DefaultApplication()


@asynccontextmanager
async def lifespan(_parent: object) -> AsyncIterator[None]:
    """The lifespan of `app`, for an application that it is mounted into: ``FastAPI(lifespan=lifespan)``.

    Raises:
        SettingsError: The environment has a wrong setting.
        StartError: The server cannot start.
    """
    application = _default_app()
    if isinstance(application, BrokenApplication):
        raise SettingsError(application.reason)
    await application.startup()
    try:
        yield
    finally:
        await application.shutdown()
