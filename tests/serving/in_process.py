"""The application in the process of the tests, in a thread with an event loop of its own.

It has a port on loopback: clients of any kind can ask it, may read as slowly as they like and leave, as with
a server of its own, which takes a second more to start. Only signals, the command line and other servers than
llmserve's need a process (`process`).
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import uvicorn

from llmserve.server.application import Application
from llmserve.server.draining_server import DrainingServer
from llmserve.server.http_protocol import HttpProtocol
from llmserve.server.logs import OneLineFormatter
from llmserve.server.settings import parse_settings
from serving.server import SMALL, Server

END_S = 60
LOGGERS = ("llmserve", "uvicorn", "asyncio")


@contextmanager
def serve_in_process(
    folder: Path, model: Path | None = None, *, env: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """Serves with the settings of `env`; with a model, waits until it is ready."""
    first = {} if model is None else {"LLMSERVE_MODEL": str(model)}
    app = Application(parse_settings({**SMALL, **first, **(env or {})}), chains_signals=False)
    log_file = folder / "server.log"
    with _logs_to(log_file), _listening(app) as server:
        assert server.bound_port is not None
        running = Server(server.bound_port, log_file)
        if model is not None:
            running.wait_until_ready()
        yield running


def serve_folder(folder: Path, models: Path) -> AbstractContextManager[Server]:
    """Serves the models of a folder, which are loaded on demand."""
    return serve_in_process(folder, env={"MODELS_DIR": str(models), "LLMSERVE_LOAD_WAIT_S": "120"})


@contextmanager
def _listening(app: Application) -> Iterator[DrainingServer]:
    listening: Future[asyncio.AbstractEventLoop] = Future()
    config = uvicorn.Config(
        app,
        port=0,
        lifespan="on",
        log_config=None,
        access_log=False,
        http=HttpProtocol,
        ws="none",
        server_header=False,
    )
    server = DrainingServer(config, app, lambda: listening.set_result(asyncio.get_running_loop()))

    def run() -> None:
        try:
            server.run()
        finally:
            if not listening.done():
                listening.set_exception(RuntimeError("the server did not start"))

    thread = threading.Thread(target=run, name="server")
    thread.start()
    loop = listening.result(END_S)
    try:
        yield server
    finally:
        # Twice: what still runs is cancelled at once.
        for _ in range(2):
            loop.call_soon_threadsafe(server.end)
        thread.join(END_S)
        assert not thread.is_alive(), "the server does not end"


@contextmanager
def _logs_to(path: Path) -> Iterator[None]:
    handler = logging.FileHandler(path)
    handler.setFormatter(OneLineFormatter("%(levelname)s %(name)s %(message)s"))
    loggers = [logging.getLogger(name) for name in LOGGERS]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
        handler.close()
