"""Logging of the server: one line a record, with the request's id."""

from __future__ import annotations

import logging
import sys

from llmserve.http.request_id import RequestIdFilter

_FORMAT = "%(asctime)s %(levelname)s %(name)s [%(request_id)s] %(message)s"


def configure_logging(level: str) -> None:
    """Sends llmserve's records to standard error, unless the program has set up logging by itself."""
    logger = logging.getLogger("llmserve")
    logger.setLevel(level.upper())
    # llama.cpp tells dozens of lines for each load: they are for those who look for something.
    if logger.level > logging.DEBUG:
        logging.getLogger("llmserve.engine").setLevel(max(logger.level, logging.WARNING))
    if any(
        not isinstance(handler, logging.NullHandler) for handler in (*logger.handlers, *logging.root.handlers)
    ):
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(_FORMAT))
    handler.addFilter(RequestIdFilter())
    logger.addHandler(handler)
