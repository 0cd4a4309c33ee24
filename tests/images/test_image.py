"""The container image that `make image` builds, started."""

from __future__ import annotations

import json
import os
import platform
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from images.container import Container, running
from serving.client import get, post, wait_until
from serving.process import free_port
from toolchain import ROOT

pytestmark = [
    pytest.mark.image,
    pytest.mark.skipif(platform.system() != "Linux" or os.getuid() != 0, reason="namespaces take root"),
]
ARCHIVE = Path(os.environ.get("LLMSERVE_TEST_IMAGE") or ROOT / "dist" / "llmserve-image.tar")


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The image's root file system, and its settings."""
    if not ARCHIVE.is_file():
        pytest.skip("there is no image: `make image`")
    folder = tmp_path_factory.mktemp("image")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")

    def blob(descriptor: dict[str, Any]) -> Path:
        return folder.joinpath("blobs", *descriptor["digest"].split(":"))

    [entry] = json.loads((folder / "index.json").read_text())["manifests"]
    manifest = json.loads(blob(entry).read_text())
    root = folder / "root"
    root.mkdir(mode=0o755)
    for layer in manifest["layers"]:
        with tarfile.open(blob(layer)) as archive:
            archive.extractall(root, filter="fully_trusted")  # noqa: S202  ours
    return root, json.loads(blob(manifest["config"]).read_text())["config"]


@pytest.fixture
def container(
    image: tuple[Path, dict[str, Any]], tiny_model: Path, tmp_path: Path
) -> Iterator[tuple[Container, int]]:
    root, settings = image
    models = tmp_path / "models"
    models.mkdir(mode=0o755)
    shutil.copy(tiny_model, models / "tiny.gguf")
    port = free_port()
    with running(root, settings, models, {"LLMSERVE_PORT": str(port)}, tmp_path / "log") as started:
        wait_until(lambda: _is_ready(started, port))
        yield started, port


def _is_ready(started: Container, port: int) -> bool:
    assert started.process.poll() is None, started.log.read_text()
    try:
        return get(port, "/ready").status == 200
    except ConnectionError:
        return False


def test_it_answers_and_ends(container: tuple[Container, int], image: tuple[Path, dict[str, Any]]) -> None:
    started, port = container
    assert started.status("Uid").split() == ["65532"] * 4
    assert started.status("NoNewPrivs") == "1"
    assert started.is_read_only
    answer = post(
        port,
        "/v1/chat/completions",
        {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 3},
    )
    assert answer.status == 200, answer.text
    assert answer.json["usage"]["completion_tokens"] > 0
    check = image[1]["Healthcheck"]["Test"]
    assert check[0] == "CMD"
    assert started.run(check[1:]) == 0
    assert started.stop() == 0, started.log.read_text()
