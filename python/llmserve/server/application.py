"""The application: wires services, middleware and dialects together.

Without a lifespan (mounted into another application) it works too, but loads no model at the start.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

# Now, so that no request waits while jinja2 is imported.
import llmserve.templates  # noqa: F401
from llmserve.server.apis.grpc.starting import GrpcStartError, create_server
from llmserve.server.apis.llamacpp import operations as llamacpp_operations
from llmserve.server.apis.llamacpp import routes as llamacpp
from llmserve.server.apis.llamatik import operations as llamatik_operations
from llmserve.server.apis.llamatik import routes as llamatik
from llmserve.server.apis.models import operations as models_operations
from llmserve.server.apis.models.routes import ModelsApi
from llmserve.server.apis.openai import errors as openai_errors
from llmserve.server.apis.openai import operations as openai_operations
from llmserve.server.apis.openai.routes import OpenAiApi
from llmserve.server.apis.ops.routes import HEALTH, METRICS, OpsApi, keyless_paths
from llmserve.server.apis.sie import errors as sie_errors
from llmserve.server.apis.sie import operations as sie_operations
from llmserve.server.apis.sie.headers import AnswerHeadersMiddleware
from llmserve.server.apis.sie.routes import SieApi
from llmserve.server.apis.unsupported import routes as unsupported
from llmserve.server.first_model import FirstModel, StartObserver
from llmserve.server.logs import configure_logging
from llmserve.server.services import Services
from llmserve.server.settings import Settings
from llmserve.server.signals import SignalChain
from llmserve.server.stale_files import remove_stale_files
from llmserve.server.trust.hosts import HostRule
from llmserve.server.trust.keys import KeyRule
from llmserve.server.trust.origins import OriginRule
from llmserve.server.web.bodies import Bodies
from llmserve.server.web.counters import CountMiddleware, RouteLabels
from llmserve.server.web.cutting import CutOffMiddleware
from llmserve.server.web.disconnect import ConnectionMiddleware
from llmserve.server.web.draining import DrainMiddleware
from llmserve.server.web.endpoint import build_router
from llmserve.server.web.errors import ErrorMiddleware
from llmserve.server.web.gate import GateMiddleware, Rule
from llmserve.server.web.request_id import RequestIdMiddleware
from llmserve.server.web.sse import StreamLimits
from llmserve.server.workers import OneWorkerLock, SeveralWorkersError

if TYPE_CHECKING:
    from llmserve.server.apis.grpc.server import GrpcServer

logger = logging.getLogger(__name__)

_PROBES = (HEALTH, METRICS)
"""What answers under any host name, and also while the server drains."""

_EXPOSED_HEADERS = (
    "Retry-After",
    "WWW-Authenticate",
    "X-LLMServe-Ignored",
    "X-LLMServe-Seed",
    "X-Request-ID",
    "X-SIE-Error-Code",
    "X-SIE-Request-ID",
    "X-SIE-Server-Version",
)


class Application:
    """The server as an ASGI application.

    ``chains_signals`` is for servers that are not ours: it aborts running requests as soon as theirs are told
    to end, since they would wait for open streams without limit.
    """

    def __init__(
        self, settings: Settings, observer: StartObserver | None = None, *, chains_signals: bool = True
    ) -> None:
        self.services = Services.create(settings)
        self._http = _build_http(self.services)
        self._lock = OneWorkerLock()
        self._signals = SignalChain(self.stop, settings.grace_s) if chains_signals else None
        self._first_model = FirstModel(self.services, observer)
        self._grpc: GrpcServer | None = None
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
        """Begins to serve and to load the first model, where one is set.

        Raises:
            SeveralWorkersError: This is one of several workers.
            GrpcStartError: The gRPC service cannot begin.
        """
        configure_logging(self.services.settings.log_level)
        for notice in self.services.settings.notices:
            logger.log(notice.level, "%s", notice.text)
        self._lock.acquire()
        try:
            if self.services.settings.grpc_port is not None:
                self._grpc = create_server(self.services)
                await self._grpc.start()
        except GrpcStartError:
            self._lock.release()
            raise
        if (folder := self.services.settings.sessions_dir) is not None:
            await asyncio.to_thread(remove_stale_files, folder)
        if self._signals is not None:
            self._signals.install()
        self._first_model.start()

    @property
    def grpc_address(self) -> str:
        """``host:port`` of the gRPC service, while there is one."""
        return self._grpc.address if self._grpc is not None else ""

    def stop(self) -> None:
        """Aborts running requests and loads; their answers end with their terminal events."""
        self.services.lifecycle.stop()
        if self._cancelling is None:
            self._cancelling = asyncio.ensure_future(self._cancel_loads())

    async def _cancel_loads(self) -> None:
        await self.services.on_demand.close()
        await self.services.registry.cancel_loads()

    async def shutdown(self) -> None:
        """Ends what runs and frees the engines' memory."""
        self.stop()
        if self._signals is not None:
            self._signals.restore()
        if self._grpc is not None:
            await self._grpc.stop()
        await self.services.on_demand.close()
        await self.services.registry.close()
        await self._first_model.wait()
        self._lock.release()

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self.startup()
        except (SeveralWorkersError, GrpcStartError) as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.shutdown()
        await send({"type": "lifespan.shutdown.complete"})


def _build_http(services: Services) -> ASGIApp:
    dialects = (
        llamacpp.LlamaCppApi(services),
        llamatik.LlamatikApi(services),
        OpenAiApi(services),
        ModelsApi(services),
        SieApi(services),
    )
    ops = OpsApi(services)
    described = [*ops.endpoints(), *(endpoint for dialect in dialects for endpoint in dialect.endpoints())]
    operations = (
        llamacpp_operations,
        llamatik_operations,
        openai_operations,
        models_operations,
        sie_operations,
    )
    ops.describe(described, [cls for module in operations for cls in module.RESPONSE_TYPES])
    endpoints = [*described, *ops.page_endpoints(), *unsupported.endpoints()]
    limits = StreamLimits(services.settings.sse_ping_s, services.settings.stall_s)
    shapes = (*llamacpp.SHAPES, *llamatik.SHAPES, *openai_errors.SHAPES, *sie_errors.SHAPES)
    # From the inside out. Errors are answered inside CORS, so that browsers may read them.
    bodies = Bodies(services.settings.body_timeout_s, services.settings.max_bodies_bytes)
    app: ASGIApp = build_router(endpoints, limits, bodies)
    app = ConnectionMiddleware(app, services.settings.max_body_bytes)
    app = DrainMiddleware(app, services.lifecycle, always_open=_PROBES)
    app = GateMiddleware(app, _rules(services.settings))
    app = ErrorMiddleware(app, shapes, services.http_counters, services.settings.stall_s)
    app = AnswerHeadersMiddleware(app)
    if services.settings.cors_origins:
        app = CORSMiddleware(
            app,
            allow_origins=services.settings.cors_origins,
            allow_methods=("GET", "POST"),
            allow_headers=("*",),
            expose_headers=_EXPOSED_HEADERS,
        )
    app = RequestIdMiddleware(app)
    labels = RouteLabels(endpoint.path for endpoint in endpoints)
    return CutOffMiddleware(CountMiddleware(app, services.http_counters, labels))


def _rules(settings: Settings) -> list[Rule]:
    hosts = HostRule(settings.allowed_hosts, open_paths=_PROBES)
    keys = KeyRule(settings.api_key, keyless_paths(settings), local_paths=(METRICS,))
    return [hosts, OriginRule(settings.cors_origins, hosts), keys]
