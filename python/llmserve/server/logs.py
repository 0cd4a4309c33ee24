"""Logging of the server: one line a record, with the request's id, as text or as JSON."""

from __future__ import annotations

import json
import logging
import sys
import unicodedata
from datetime import UTC, datetime
from typing import Any

from llmserve.server.web.request_id import RequestIdFilter

_FORMAT = "%(asctime)s %(levelname)s %(name)s [%(request_id)s] %(message)s"


class OneLineFormatter(logging.Formatter):
    """Writes control characters and line ends of a message as escapes.

    Messages quote clients, who could otherwise write lines of their own, or to the operator's terminal.
    Tracebacks, which are below the message, keep their lines.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """The line of a record."""
        line = super().formatMessage(record)
        return "".join(map(_escaped, line)) if not line.isprintable() else line


def _escaped(character: str) -> str:
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return character.encode("unicode_escape").decode()
    return character


class JsonFormatter(logging.Formatter):
    """Writes a record as a JSON object in one line, with the fields of a request's line as members."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        members: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "request_id": getattr(record, "request_id", "-"),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            members["exception"] = self.formatException(record.exc_info)
        return json.dumps(members)


class OncePerText(logging.Filter):
    """Lets a warning with the same text pass only once: clients can cause it as often as they like."""

    def __init__(self) -> None:
        super().__init__()
        self._passed: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is new."""
        if record.levelno != logging.WARNING or record.args:
            return True
        text = record.getMessage()
        if text in self._passed:
            return False
        # uvicorn has a handful of such warnings.
        self._passed.add(text)
        return True


class EngineLines(logging.Filter):
    """Leaves out lines of the engine that say what the start's output says, or nothing."""

    hides_failed_loads = False
    """Whether a load's failure is told otherwise."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is worth a line."""
        text = record.getMessage()
        # llama.cpp says so of a pool of cells for several sequences, none of which is longer than trained.
        if "possible training context overflow" in text:
            return False
        return not (self.hides_failed_loads and text.startswith("loading ") and " failed: " in text)


ENGINE_LINES = EngineLines()
_ONCE_PER_TEXT = OncePerText()


def configure_logging(level: str, log_format: str = "text") -> None:
    """Sends records of llmserve and of traces to standard error, unless the program has set up logging.

    uvicorn then gives advice, such as that on protocol upgrades, once and not with every request.
    """
    logger = logging.getLogger("llmserve")
    logger.setLevel(level.upper())
    engine = logging.getLogger("llmserve.engine")
    # llama.cpp logs dozens of lines for each load, which help only in a search for something.
    if logger.level > logging.DEBUG:
        engine.setLevel(max(logger.level, logging.WARNING))
        engine.addFilter(ENGINE_LINES)
    if any(
        not isinstance(handler, logging.NullHandler) for handler in (*logger.handlers, *logging.root.handlers)
    ):
        return
    for own in (logger, logging.getLogger("opentelemetry")):
        own.addHandler(_handler(log_format))
    logging.getLogger("uvicorn.error").addFilter(_ONCE_PER_TEXT)


def configure_uvicorn_logging(level: str, log_format: str) -> None:
    """Writes uvicorn's records in the same form. At ``info`` it would tell of each start and end."""
    logger = logging.getLogger("uvicorn")
    logger.setLevel("WARNING" if level == "info" else level.upper())
    logger.addHandler(_handler(log_format))


def _handler(log_format: str) -> logging.Handler:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else OneLineFormatter(_FORMAT))
    handler.addFilter(RequestIdFilter())
    return handler
