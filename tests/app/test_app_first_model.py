"""The load of the settings' model, without a server around it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from llmserve import LoadError
from llmserve.server.first_model import FirstModel
from llmserve.server.models import SERVER_PIN, Model
from llmserve.server.services import Services
from llmserve.server.settings import parse_settings


class Observer:
    def __init__(self, *, is_broken: bool = False) -> None:
        self.progress: list[float] = []
        self.failures: list[Exception] = []
        self.ready: list[str] = []
        self._is_broken = is_broken

    def on_progress(self, progress: float) -> None:
        self.progress.append(progress)

    def on_ready(self, model: Model) -> None:
        if self._is_broken:
            raise UnicodeError("cannot be shown")
        self.ready.append(model.id)

    def on_failed(self, error: Exception) -> None:
        self.failures.append(error)


def load(
    model: Path, observer: Observer | None, prepare: Callable[[Services], object] = lambda services: None
) -> None:
    async def main() -> None:
        settings = {"LLMSERVE_MODEL": str(model), "LLMSERVE_CONTEXT_LENGTH": "512", "LLMSERVE_THREADS": "1"}
        services = Services.create(parse_settings(settings))
        prepare(services)
        first = FirstModel(services, observer)
        first.start()
        await first.wait()
        await services.registry.close()

    asyncio.run(main())


def test_the_observer_is_told(tiny_model: Path) -> None:
    observer = Observer()
    load(tiny_model, observer)
    assert (observer.ready, observer.failures) == ([tiny_model.stem], [])
    assert observer.progress[0] == 0


@pytest.mark.parametrize("is_observed", [True, False])
def test_a_load_that_fails_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_observed: bool
) -> None:
    observer = Observer()
    name = "llmserve.server.first_model"
    with caplog.at_level(logging.INFO, name):
        load(tmp_path / "missing.gguf", observer if is_observed else None)
    logged = [
        record.getMessage() for record in caplog.records if record.name == "llmserve.server.first_model"
    ]
    if is_observed:
        (failure,) = observer.failures
        assert isinstance(failure, LoadError)
        assert logged == []
    else:
        (line,) = logged
        assert line.startswith("the first model could not be loaded: ")


def test_a_model_that_is_loaded_while_the_server_stops_is_not_announced(tiny_model: Path) -> None:
    observer = Observer()

    def stop_at_the_end(services: Services) -> None:
        services.registry.on_ready.append(lambda model: services.lifecycle.stop())
        services.registry.on_ready.append(lambda model: services.registry.unpin(model.path, SERVER_PIN))

    load(tiny_model, observer, stop_at_the_end)
    assert (observer.ready, observer.failures) == ([], [])


def test_no_fault_is_lost(tiny_model: Path, caplog: pytest.LogCaptureFixture) -> None:
    observer = Observer(is_broken=True)
    name = "llmserve.server.first_model"
    with caplog.at_level(logging.INFO, name):
        load(tiny_model, observer)
    assert [str(failure) for failure in observer.failures] == ["cannot be shown"]
    assert "cannot be shown" in caplog.text
