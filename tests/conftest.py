"""What the tests of more than one file need: models, engines, and both event loop libraries."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest
from hypothesis import settings

from engines import loaded
from llmserve import Engine
from loops import PATIENCE_S
from synthetic import main_file, write_all

DEFAULT_MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"

# No test is timed. In CI, examples are always the same.
settings.register_profile("llmserve", database=None, deadline=None, derandomize="CI" in os.environ)
settings.load_profile("llmserve")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests come first, so that no process is left with one of them at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Tests marked `anyio` run on both."""
    return str(request.param)


@pytest.fixture(scope="session")
def model_path() -> Path:
    """The default model, which `llmserve pull` gets; `LLMSERVE_TEST_MODEL` names another."""
    cache = Path(os.environ.get("LLMSERVE_CACHE_DIR") or Path.home() / ".cache" / "llmserve")
    path = Path(os.environ.get("LLMSERVE_TEST_MODEL") or cache / "models" / DEFAULT_MODEL)
    if not path.is_file():
        pytest.fail("the default model is missing: run `llmserve pull`", pytrace=False)
    return path


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of generated models that load in milliseconds (see `synthetic`)."""
    folder = tmp_path_factory.mktemp("models")
    write_all(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_model(tiny_models: Path) -> Path:
    """A generated model with an attention cache."""
    return tiny_models / main_file("llama")


@pytest.fixture(scope="module")
def engine(model_path: Path) -> Iterator[Engine]:
    """The default model. Belongs to no event loop."""
    with loaded(model_path) as engine:
        yield engine


@pytest.fixture(scope="module")
def tiny(tiny_model: Path) -> Iterator[Engine]:
    """A model of random weights: it writes whatever it may, which leads into every corner of a constraint."""
    with loaded(tiny_model) as engine:
        yield engine


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], object]:
    """Waits, in any event loop, until something holds."""

    async def wait(holds: Callable[[], bool]) -> None:
        with anyio.fail_after(PATIENCE_S):
            while not holds():  # noqa: ASYNC110 - the engine counts on its own thread
                await anyio.sleep(0.01)

    return wait
