"""``llmserve serve``: runs the server and prints what it serves."""

from __future__ import annotations

import shlex
import sys
from typing import TextIO

import orjson
import uvicorn

from llmserve import __version__
from llmserve.server.addresses import is_loopback_name
from llmserve.server.application import Application
from llmserve.server.download.progress import ProgressLine
from llmserve.server.draining_server import DrainingServer
from llmserve.server.early_load import EarlyLoad
from llmserve.server.http_protocol import HttpProtocol
from llmserve.server.models import Model
from llmserve.server.settings import Settings
from llmserve.types import ModelInfo

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
            self._stream.write(f"llmserve {__version__} serves the models of its catalogue\n")
            self._stream.write(f"  address         {self._url()}\n{self._grpc()}")
            self._stream.flush()
        elif self._ready is not None:
            self._announce(self._ready)

    def on_ready(self, model: Model) -> None:
        """Prints the model, its sizes and the address, once that is known."""
        self._line.show(1.0)
        self._line.close()
        self._ready = model
        if self._is_listening:
            self._announce(model)

    def _announce(self, model: Model) -> None:
        if model.handle is not None:
            needs_key = bool(self._settings.api_key)
            text = describe(model, model.handle.info, self._url(), needs_key=needs_key, grpc=self._grpc())
            self._stream.write(text)
            self._stream.flush()

    def on_failed(self, error: Exception) -> None:
        """Prints the reason and ends the server."""
        self._line.close()
        self._stream.write(f"llmserve: the model could not be loaded: {error}\n")
        if self.server is not None:
            self.server.end(LOAD_FAILED)

    def _url(self) -> str:
        host, port = self._settings.host, self._settings.port
        if self.server is not None:
            port = self.server.bound_port or port
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def _grpc(self) -> str:
        address = self.server.grpc_address if self.server is not None else ""
        return f"  gRPC            {address}\n" if address else ""


def describe(model: Model, info: ModelInfo, url: str, *, needs_key: bool = False, grpc: str = "") -> str:
    """What is served, and a first request to try; ``grpc`` is the line about the gRPC service."""
    key = '-H "Authorization: Bearer $LLMSERVE_API_KEY" ' if needs_key else ""
    # llama.cpp's description has the size of another model that has as many layers.
    size = f"{count(info.num_parameters)} parameters"
    return (
        f"llmserve {__version__} serves {model.id} ({info.architecture}, {size})\n"
        f"{_embedding_sizes(info) if model.kind == 'embedding' else _generation_sizes(info)}"
        f"  threads         {info.num_threads}\n"
        f"  computed on     {computed_on(info)}\n{_drafting(model)}"
        f"  address         {url}\n{grpc}"
        f"  documentation   {url}/docs\n"
        f"try: curl -N {key}{url}{_first_request(model)}\n"
    )


def count(number: int) -> str:
    """A number in thousands, millions or billions, as models are named: "134.5M"."""
    rest = float(number)
    for unit in ("", "K", "M"):
        if rest < 999.95:
            return f"{rest:.1f}{unit}" if unit else str(number)
        rest /= 1000
    return f"{rest:.1f}B"


def computed_on(info: ModelInfo) -> str:
    """The backend, and the number of layers that are on GPUs."""
    if info.num_gpu_layers == 0:
        return info.backend
    return f"{info.backend}: {info.num_gpu_layers} of {info.num_layers + 1} layers"


def _drafting(model: Model) -> str:
    drafting = None if model.engine is None else model.engine.drafting
    if drafting is None:
        return ""
    adaptive = "adaptive" if drafting.adaptive else "not adaptive"
    return f"  drafting        {drafting.method}, up to {drafting.draft_len} tokens, {adaptive}\n"


def _generation_sizes(info: ModelInfo) -> str:
    return (
        f"  context length  {info.context_length} tokens per sequence\n"
        f"  KV cells        {info.num_cells} ({info.kv_layout}, {info.kv_type_k}/{info.kv_type_v})\n"
        f"  sequences       {info.num_slots} at once\n"
    )


def _embedding_sizes(info: ModelInfo) -> str:
    return (
        f"  embeddings      {info.embedding_length} values ({info.pooling} pooling)\n"
        f"  context length  {info.context_length} tokens per input\n"
        f"  inputs          {info.num_slots} at once\n"
    )


def _first_request(model: Model) -> str:
    body: dict[str, object]
    if model.kind == "embedding":
        path, body = "/v1/embeddings", {"model": model.id, "input": "Once upon a time"}
    else:
        messages = [{"role": "user", "content": "Tell me a story."}]
        body = {"model": model.id, "messages": messages, "max_tokens": 32, "stream": True}
        path = "/v1/chat/completions"
    return f"{path} -d {shlex.quote(orjson.dumps(body).decode())}"


def serve(settings: Settings, early_load: EarlyLoad | None) -> int:
    """Serves until a signal ends the server; returns the exit status."""
    announcer = Announcer(settings, sys.stderr)
    app = Application(settings, announcer, chains_signals=False)
    if early_load is not None:
        app.services.registry.load_model = early_load.load
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        workers=1,
        lifespan="on",
        log_level="warning" if settings.log_level == "info" else settings.log_level,
        access_log=settings.log_level == "debug",
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
    server.run()
    return server.exit_status


def _hosts(settings: Settings) -> tuple[str, ...]:
    return (settings.host,) if settings.grpc_port is None else (settings.host, settings.grpc_host)
