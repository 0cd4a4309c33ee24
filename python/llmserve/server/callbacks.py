"""Calls functions of which none may keep the others from being called."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import ParamSpec

P = ParamSpec("P")


def call_all(
    logger: logging.Logger,
    failure: str,
    callbacks: Iterable[Callable[P, object]],
    *args: P.args,
    **kwargs: P.kwargs,
) -> None:
    """Calls all of them; the log gets ``failure`` with each exception.

    Callbacks may be added and removed meanwhile.
    """
    for callback in list(callbacks):
        try:
            callback(*args, **kwargs)
        except Exception:
            logger.exception(failure)
