"""The application: wires services, middleware and dialects together.

Without a lifespan (mounted into another application) it works too, but loads no model at the start.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from starlette.types import Receive, Scope, Send

# Imported now, so that no request waits for jinja2.
import llmserve.templates  # noqa: F401
from llmserve.server.apis.anthropic import routes as anthropic
from llmserve.server.apis.grpc.starting import CONVENTIONAL_PORT, GrpcStartError, create_server
from llmserve.server.apis.llamacpp import routes as llamacpp
from llmserve.server.apis.llamatik import routes as llamatik
from llmserve.server.apis.models import routes as models
from llmserve.server.apis.ollama import routes as ollama
from llmserve.server.apis.openai import routes as openai
from llmserve.server.apis.ops.routes import OpsApi
from llmserve.server.apis.rerank import routes as rerank
from llmserve.server.apis.sie import routes as sie
from llmserve.server.apis.unsupported import routes as unsupported
from llmserve.server.first_model import FirstModel, StartObserver
from llmserve.server.logs import configure_logging
from llmserve.server.models import Revival
from llmserve.server.page import routes as page
from llmserve.server.services import Services
from llmserve.server.settings import Settings
from llmserve.server.signals import SignalChain
from llmserve.server.stale_files import remove_stale_files
from llmserve.server.start_error import StartError
from llmserve.server.web.endpoint import Route
from llmserve.server.web.gate import Gate
from llmserve.server.workers import OneWorkerLock

if TYPE_CHECKING:
    from llmserve.server.apis.grpc.server import GrpcServer

logger = logging.getLogger(__name__)

_DIALECTS = (
    llamacpp.routes,
    llamatik.routes,
    openai.routes,
    anthropic.routes,
    models.routes,
    ollama.routes,
    rerank.routes,
    sie.routes,
    unsupported.routes,
)
"""The dialects that are served beside health, metrics and the pages."""


class Application:
    """The server as an ASGI application.

    ``chains_signals`` is for servers that are not ours: it aborts running requests as soon as theirs are told
    to end, since they would wait for open streams without limit. With ``offers_grpc`` the gRPC service is
    there, where that is possible, even if the settings name no port for it.
    """

    def __init__(
        self,
        settings: Settings,
        observer: StartObserver | None = None,
        *,
        chains_signals: bool = True,
        offers_grpc: bool = False,
    ) -> None:
        self.services = services = Services.create(settings)
        self.routes = _routes(services)
        self._http = Gate(settings, services.lifecycle, services.http_counters, services.tracing, self.routes)
        self._lock = OneWorkerLock()
        self._signals = SignalChain(self.stop, settings.grace_s) if chains_signals else None
        self._first_model = FirstModel(self.services, observer)
        self._grpc: GrpcServer | None = None
        self._offers_grpc = offers_grpc
        self._offering: asyncio.Task[None] | None = None
        self._reviving: asyncio.Task[None] | None = None
        self._cancelling: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one ASGI connection."""
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            await receive()
            await send({"type": "websocket.close", "code": 1000})

    async def startup(self) -> None:
        """Begins to serve and to load the first model, if one is set.

        Raises:
            TracingStartError: Requests cannot be traced.
            KvEventsStartError: KV events cannot be published.
            SeveralWorkersError: This process is one of several workers.
            GrpcStartError: The gRPC service cannot begin.
        """
        configure_logging(self.services.settings.log_level, self.services.settings.log_format)
        for notice in self.services.settings.notices:
            logger.log(notice.level, "%s", notice.text)
        self.services.tracing.start()
        self._lock.acquire()
        try:
            settings = self.services.settings
            if settings.grpc and settings.grpc_port is not None:
                self._grpc = create_server(self.services, settings.grpc_port)
                await self._grpc.start()
        except GrpcStartError:
            self._lock.release()
            raise
        if (folder := self.services.settings.sessions_dir) is not None:
            await asyncio.to_thread(remove_stale_files, folder)
        if self._signals is not None:
            self._signals.install()
        self._first_model.start()
        self.services.kv_events.start()
        self._reviving = asyncio.create_task(Revival(self.services.registry).watch())
        if self._offers_grpc and self._grpc is None:
            self._offering = asyncio.create_task(self._offer_grpc())

    async def _offer_grpc(self) -> None:
        """Begins the gRPC service, unless its port is taken or a package is missing."""
        # The import would take time from the load.
        await self._first_model.wait()
        if not self.services.lifecycle.is_staying:
            return
        try:
            server = await asyncio.to_thread(create_server, self.services, CONVENTIONAL_PORT)
            await server.start()
        except GrpcStartError as error:
            logger.info("gRPC is off: %s", str(error).partition("\n")[0])
        else:
            self._grpc = server
            logger.info("gRPC on %s", server.address)

    @property
    def grpc_address(self) -> str:
        """``host:port`` of the gRPC service, while there is one."""
        return self._grpc.address if self._grpc is not None else ""

    def stop(self) -> None:
        """Aborts running requests and loads; their answers end with their terminal events."""
        self.services.lifecycle.stop()
        if self._reviving is not None:
            self._reviving.cancel()
        if self._cancelling is None:
            self._cancelling = asyncio.ensure_future(self._cancel_loads())

    async def _cancel_loads(self) -> None:
        await self.services.on_demand.close()
        await self.services.registry.cancel_loads()

    async def shutdown(self) -> None:
        """Ends whatever runs and frees the engines' memory."""
        self.stop()
        if self._signals is not None:
            self._signals.restore()
        if self._offering is not None:
            await self._offering
        if self._grpc is not None:
            await self._grpc.stop()
        await self.services.on_demand.close()
        if self.services.kept_sessions is not None:
            await self.services.kept_sessions.save()
        await self.services.kv_events.stop()
        await self.services.registry.close()
        await self._first_model.wait()
        await self.services.tracing.stop()
        self._lock.release()

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self.startup()
        except StartError as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.shutdown()
        await send({"type": "lifespan.shutdown.complete"})


def _routes(services: Services) -> list[Route]:
    ops = OpsApi(services)
    routes = [*ops.routes(), *page.routes(), *(route for dialect in _DIALECTS for route in dialect(services))]
    ops.describe(routes)
    return routes
