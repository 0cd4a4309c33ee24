"""Tests run on both event loop libraries where it may matter."""

from __future__ import annotations

import pytest

one_loop = pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="module")
"""For tests that look at the engine and take long."""
