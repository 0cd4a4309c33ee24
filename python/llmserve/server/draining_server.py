"""``llmserve serve``'s own uvicorn server: drains on a signal, then ends with status 0."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextvars import Context
from types import FrameType

import uvicorn

from llmserve.server.application import Application
from llmserve.server.start_error import StartError

logger = logging.getLogger(__name__)

_ANSWER_END_S = 2.0
"""How long cancelled requests have for their terminal events to be written."""


class DrainingServer(uvicorn.Server):
    """On SIGTERM or SIGINT is not ready any more, then refuses new requests, and after the grace time cancels
    running ones.

    The listener stays open meanwhile, so that new requests get their 503. A second signal cancels at once.
    """

    def __init__(
        self, config: uvicorn.Config, app: Application, on_listening: Callable[[], object] = lambda: None
    ) -> None:
        # This server starts and ends the application by itself, so it can say why a start failed.
        config.lifespan = "off"
        super().__init__(config)
        self._on_listening = on_listening
        self.exit_status = 0
        self._app = app
        self._prestop_s = app.services.settings.prestop_s
        self._grace_s = app.services.settings.grace_s
        self._ending: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._hurry = asyncio.Event()

    @property
    def bound_port(self) -> int | None:
        """The port that the server listens on, once it does; of a UNIX socket none."""
        for server in getattr(self, "servers", []):
            for sock in server.sockets:
                if isinstance(name := sock.getsockname(), tuple):
                    return int(name[1])
        return None

    @property
    def grpc_address(self) -> str:
        """``host:port`` of the gRPC service, if there is one."""
        return self._app.grpc_address

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        """Starts the application and listens; uvicorn calls it.

        Raises:
            StartError: The application cannot start.
        """
        self._loop = asyncio.get_running_loop()
        await self._app.startup()
        try:
            await super().startup(sockets)  # type: ignore[arg-type]
        except OSError as error:
            await self._app.shutdown()
            raise StartError(f"cannot listen: {error.strerror or error}") from error
        if self.started:
            self._on_listening()

    async def shutdown(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        """Closes the listener and the connections, and ends the application; uvicorn calls it."""
        await super().shutdown(sockets)  # type: ignore[arg-type]
        await self._app.shutdown()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Takes a signal; uvicorn installs it. The signal is not raised again afterwards."""
        if self._loop is None:
            raise KeyboardInterrupt
        # The signal may come amid a request, whose id is not to be in the log of the end.
        self._loop.call_soon_threadsafe(self.end, context=Context())

    def end(self, status: int = 0) -> None:
        """Drains and ends the server; a second call cancels what still runs."""
        self.exit_status = self.exit_status or status
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._drain())
        else:
            self._hurry.set()

    async def _drain(self) -> None:
        lifecycle = self._app.services.lifecycle
        hurry = asyncio.ensure_future(self._hurry.wait())
        if self._prestop_s > 0 and self.exit_status == 0:
            logger.info("not ready any more; new requests are served for another %g s", self._prestop_s)
            lifecycle.leave()
            await asyncio.wait({hurry}, timeout=self._prestop_s)
        if self.exit_status == 0:
            logger.info("draining: no new requests; running ones have %g s", self._grace_s)
        lifecycle.drain()
        idle = asyncio.ensure_future(lifecycle.wait_idle())
        await asyncio.wait({idle, hurry}, timeout=self._grace_s, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        self._app.stop()
        # Cancelled requests write their terminal events; a client that does not read is not waited for.
        await asyncio.wait({idle}, timeout=_ANSWER_END_S)
        idle.cancel()
        self.should_exit = True
