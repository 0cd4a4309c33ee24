"""What tests on event loops share: which libraries, and how they wait."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest

PATIENCE_S = 120
"""Generous: it ends a hanging test, it times nothing."""

Eventually: TypeAlias = Callable[[Callable[[], bool]], Awaitable[None]]
"""The fixture `eventually`."""

one_loop = pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="module")
"""For tests that look at the engine and take long."""
