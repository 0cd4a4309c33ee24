"""Runs the checks of a client's program: all functions of a module that are named `check_...`.

One process does them all, since the clients take seconds to import. Each gives a line of JSON: its name,
and the traceback if it failed.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import traceback
from collections.abc import Callable
from typing import Any


def run_checks(namespace: dict[str, Any]) -> None:
    """Runs them in the order in which they stand there, the asynchronous ones in one event loop."""
    loop = asyncio.new_event_loop()
    for name, check in list(namespace.items()):
        if name.startswith("check_"):
            print(json.dumps({"check": name, "failure": _failure(check, loop)}), flush=True)
    loop.close()


def _failure(check: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> str | None:
    try:
        made = check()
        if inspect.iscoroutine(made):
            loop.run_until_complete(made)
    except Exception:
        return traceback.format_exc()
    return None


def raised(kind: type[BaseException], call: Callable[[], Any]) -> Any:
    """What a call raises, which must be of this kind."""
    try:
        made = call()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised: {made!r}")
