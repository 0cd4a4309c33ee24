"""A load that begins before the server's modules are imported: both take about as long."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from llmserve import _core
from llmserve._binding.blocking import run
from llmserve._binding.loads import BlockingLoad
from llmserve.model_config import ModelConfig
from llmserve.server.model_files import model_file
from llmserve.server.settings import Settings

if TYPE_CHECKING:
    from llmserve.embedder import Embedder
    from llmserve.engine import Engine

_Load: TypeAlias = BlockingLoad[_core.Engine | _core.Embedder]


class EarlyLoad:
    """The load of one model, for the first who wants it."""

    def __init__(self, path: Path, config: ModelConfig) -> None:
        """``path`` is a real path."""
        self._model = path, config
        self._report: Callable[[float], object] = lambda progress: None
        load = _Load(path, config, "any", lambda core, config: core, lambda progress: self._report(progress))
        load._begin()
        # None once it is taken.
        self._load: _Load | None = load

    @classmethod
    def of(cls, settings: Settings) -> EarlyLoad | None:
        """The load of the settings' model, if it need not wait until there is room for it."""
        if settings.model is None or settings.model_memory_bytes is not None:
            return None
        return cls(model_file(settings.model), settings.model_config)

    async def load(
        self, path: Path, config: ModelConfig, on_progress: Callable[[float], object]
    ) -> Engine | Embedder:
        """What `load_any` gives, from this load where it is of the same model."""
        # Imported late: the load does not wait for them.
        import asyncio

        from llmserve.any_model import handle_of, load_any

        early = self._load
        if early is None or (path, config) != self._model:
            return await load_any(path, config, on_progress)
        self._load = None
        loop = asyncio.get_running_loop()
        self._report = lambda progress: loop.call_soon_threadsafe(on_progress, progress)
        try:
            return handle_of(await asyncio.to_thread(lambda: run(early._finish())), config)
        finally:
            early.interrupt()
