"""The ASGI application: wires services, middleware and dialects together.

``uvicorn llmserve.app:app`` serves it with settings from the environment. Without a lifespan (mounted into
another application) it works too, but loads no model at the start.
"""

from __future__ import annotations

import asyncio
import logging
import os
from functools import cache
from typing import TYPE_CHECKING

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

# Now, so that no request waits while jinja2 is imported.
import llmserve.templates  # noqa: F401
from llmserve.apis.grpc.starting import GrpcStartError, create_server
from llmserve.apis.llamacpp import operations as llamacpp_operations
from llmserve.apis.llamacpp import routes as llamacpp
from llmserve.apis.llamatik import operations as llamatik_operations
from llmserve.apis.llamatik import routes as llamatik
from llmserve.apis.models import operations as models_operations
from llmserve.apis.models.routes import ModelsApi
from llmserve.apis.openai import errors as openai_errors
from llmserve.apis.openai import operations as openai_operations
from llmserve.apis.openai.routes import OpenAiApi
from llmserve.apis.ops.routes import HEALTH, METRICS, OpsApi, keyless_paths
from llmserve.apis.sie import errors as sie_errors
from llmserve.apis.sie import operations as sie_operations
from llmserve.apis.sie.headers import AnswerHeadersMiddleware
from llmserve.apis.sie.routes import SieApi
from llmserve.apis.unsupported import routes as unsupported
from llmserve.first_model import FirstModel, StartObserver
from llmserve.http.bodies import Bodies
from llmserve.http.counters import CountMiddleware, RouteLabels
from llmserve.http.cutting import CutOffMiddleware
from llmserve.http.disconnect import ConnectionMiddleware
from llmserve.http.draining import DrainMiddleware
from llmserve.http.endpoint import build_router
from llmserve.http.errors import ErrorMiddleware
from llmserve.http.gate import GateMiddleware, Rule
from llmserve.http.request_id import RequestIdMiddleware
from llmserve.http.sse import StreamLimits
from llmserve.server_logs import configure_logging
from llmserve.services import Services
from llmserve.settings import Settings, SettingsError, parse_settings
from llmserve.signals import SignalChain
from llmserve.stale_files import remove_stale_files
from llmserve.trust.hosts import HostRule
from llmserve.trust.keys import KeyRule
from llmserve.trust.origins import OriginRule
from llmserve.workers import OneWorkerLock, SeveralWorkersError

if TYPE_CHECKING:
    from llmserve.apis.grpc.server import GrpcServer

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


class BrokenApplication:
    """Stands in for the application where the settings are wrong: the server ends with the reason."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Fails the lifespan; without one, fails each request."""
        if scope["type"] != "lifespan":
            raise SettingsError(self._reason)
        await receive()
        await send({"type": "lifespan.startup.failed", "message": self._reason})


@cache
def _default_app() -> ASGIApp:
    try:
        return Application(parse_settings(os.environ))
    except SettingsError as error:
        return BrokenApplication(str(error))


def __getattr__(name: str) -> ASGIApp:
    # Made when a server asks for it, so that importing this module reads no environment.
    if name == "app":
        return _default_app()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
