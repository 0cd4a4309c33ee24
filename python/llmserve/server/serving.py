"""``llmserve serve``: runs the server and prints what it serves."""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from typing import TextIO

import uvicorn

from llmserve import __version__
from llmserve.server.addresses import is_loopback_name
from llmserve.server.announcement import describe, remarks
from llmserve.server.application import Application
from llmserve.server.download.progress import ProgressLine
from llmserve.server.draining_server import DrainingServer
from llmserve.server.early_load import EarlyLoad
from llmserve.server.http_protocol import HttpProtocol
from llmserve.server.load_failures import described
from llmserve.server.logs import ENGINE_LINES, configure_uvicorn_logging
from llmserve.server.models import Model
from llmserve.server.settings import Settings

LOAD_FAILED = 1
"""Exit status if the model could not be loaded."""


class Announcer:
    """Shows the progress of the first load, then what is served; ends the server if the load fails."""

    def __init__(self, settings: Settings, stream: TextIO) -> None:
        self.server: DrainingServer | None = None
        self._settings = settings
        self._stream = stream
        self._is_listening = False
        self._ready: Model | None = None
        name = settings.model.name if settings.model is not None else ""
        self._line = ProgressLine(f"loading {name}", stream)

    def on_progress(self, progress: float) -> None:
        """Draws the progress."""
        self._line.show(progress)

    def on_listening(self) -> None:
        """Prints the address, and what is served unless that is still being loaded."""
        self._is_listening = True
        if self._settings.model is None:
            where = "its catalogue" if self._settings.catalogue is not None else self._settings.models_dir
            self._stream.write(f"llmserve {__version__} serves the models of {where}\n")
            self._stream.write(f"  address         {self._url()}\n{self._grpc()}")
            self._stream.flush()
        elif self._ready is not None:
            self._announce(self._ready)

    def on_ready(self, model: Model) -> None:
        """Prints the model, its sizes and the address, once that is known."""
        ENGINE_LINES.hides_failed_loads = False
        self._line.show(1.0)
        self._line.close()
        self._ready = model
        if self._is_listening:
            self._announce(model)

    def _announce(self, model: Model) -> None:
        if model.handle is not None:
            needs_key = bool(self._settings.api_key)
            info = model.handle.info
            self._stream.write(describe(model, info, self._url(), needs_key=needs_key, grpc=self._grpc()))
            for remark in remarks(info, model.config) if model.engine is not None else ():
                self._stream.write(f"note: {remark}\n")
            self._stream.flush()

    def on_failed(self, error: Exception) -> None:
        """Prints the reason and ends the server."""
        self._line.erase()
        self._stream.write(f"llmserve: {described(error, self._settings.model)}\n")
        if self.server is not None:
            self.server.end(LOAD_FAILED)

    def _url(self) -> str:
        settings = self._settings
        if settings.uds is not None:
            return f"unix:{settings.uds}"
        port = (self.server.bound_port if self.server is not None else None) or settings.port
        scheme = "https" if settings.ssl_certfile is not None else "http"
        first = settings.hosts[0]
        host = f"[{first}]" if ":" in first else first
        return f"{scheme}://{host}:{port}{settings.root_path}"

    def _grpc(self) -> str:
        address = self.server.grpc_address if self.server is not None else ""
        return f"  gRPC            {address}\n" if address else ""


def serve(settings: Settings, early_load: EarlyLoad | None, sockets: Sequence[socket.socket]) -> int:
    """Serves on sockets until a signal ends the server; without sockets, on the settings' UNIX socket.

    Returns the exit status.

    Raises:
        StartError: The server cannot start.
    """
    configure_uvicorn_logging(settings.log_level, settings.log_format)
    announcer = Announcer(settings, sys.stderr)
    app = Application(settings, announcer, chains_signals=False, offers_grpc=_offers_grpc(settings))
    if early_load is not None:
        app.services.registry.load_model = early_load.load
    config = uvicorn.Config(
        app,
        uds=None if settings.uds is None else str(settings.uds),
        root_path=settings.root_path,
        ssl_certfile=settings.ssl_certfile,
        ssl_keyfile=None if settings.ssl_keyfile is None else str(settings.ssl_keyfile),
        workers=1,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=1,
        http=HttpProtocol,
        ws="none",
        server_header=False,
    )
    server = DrainingServer(config, app, announcer.on_listening)
    announcer.server = server
    is_local = all(map(is_loopback_name, _hosts(settings)))
    if not is_local and settings.models_dir is None:
        sys.stderr.write("note: without MODELS_DIR, only local requests may load models by path\n")
    if not is_local and not settings.api_key:
        sys.stderr.write(
            "note: LLMSERVE_API_KEY is not set, so everyone who reaches this server may use it\n"
        )
    try:
        server.run(list(sockets) or None)
    finally:
        if settings.uds is not None:
            settings.uds.unlink(missing_ok=True)
    return server.exit_status


def _offers_grpc(settings: Settings) -> bool:
    """Whether gRPC is there without a port of its own: not beside TLS or a UNIX socket, which it has not."""
    return settings.grpc and settings.uds is None and settings.ssl_certfile is None


def _hosts(settings: Settings) -> list[str]:
    has_grpc = _offers_grpc(settings) or (settings.grpc and settings.grpc_port is not None)
    return [
        *(settings.hosts if settings.uds is None else []),
        *([settings.grpc_host] if has_grpc else []),
    ]
