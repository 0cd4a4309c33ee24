"""Engines of fixtures."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from llmserve import Engine, ModelConfig

# One thread: compute threads that wait for each other are slow on a busy machine.
CONFIG = ModelConfig(context_length=2048, max_sequences=16, threads=1)


@contextmanager
def loaded(model: Path, config: ModelConfig = CONFIG) -> Iterator[Engine]:
    """An engine that belongs to no event loop."""
    engine = asyncio.run(Engine.load(model, config))
    yield engine
    asyncio.run(engine.close())
