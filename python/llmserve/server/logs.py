"""Logging of the server: one line a record, with the request's id."""

from __future__ import annotations

import logging
import sys
import unicodedata

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


_ONCE_PER_TEXT = OncePerText()


def configure_logging(level: str) -> None:
    """Sends llmserve's records to standard error, unless the program has set up logging by itself.

    uvicorn then gives advice, such as that on protocol upgrades, once and not with every request.
    """
    logger = logging.getLogger("llmserve")
    logger.setLevel(level.upper())
    # llama.cpp logs dozens of lines for each load, which help only in a search for something.
    if logger.level > logging.DEBUG:
        logging.getLogger("llmserve.engine").setLevel(max(logger.level, logging.WARNING))
    if any(
        not isinstance(handler, logging.NullHandler) for handler in (*logger.handlers, *logging.root.handlers)
    ):
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLineFormatter(_FORMAT))
    handler.addFilter(RequestIdFilter())
    logger.addHandler(handler)
    logging.getLogger("uvicorn.error").addFilter(_ONCE_PER_TEXT)
