"""The build backend: its messages, its settings, and what a source distribution holds."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import backend
from toolchain import ROOT


def _hook(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run code as pip runs a hook: in a process of its own, in the project's directory."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "build_support"), **variables}
    return subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}"],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("hook", ["get_requires_for_build_wheel", "get_requires_for_build_editable"])
def test_the_first_hook_says_what_is_missing(tmp_path: Path, hook: str) -> None:
    result = _hook(f"import backend; backend.{hook}()", PATH=str(tmp_path), HOME=str(tmp_path), CARGO_HOME="")
    assert result.returncode == 1
    assert result.stderr.startswith(
        "llmserve: `cargo` was not found: llmserve's engine is written in Rust.\nhint: "
    )
    assert "Traceback" not in result.stderr


def test_missing_maturin_is_named() -> None:
    result = _hook("sys.modules['maturin'] = None; import backend; backend.build_sdist('.')")
    assert result.returncode == 1
    assert result.stderr.startswith(
        "llmserve: the build tool `maturin` was not found.\nhint: `pip install maturin "
    )


def test_an_unknown_feature_ends_the_build() -> None:
    result = _hook("import backend; backend.build_wheel('.', {'features': 'rocket'})")
    assert result.returncode == 1
    assert result.stderr.startswith("llmserve: unknown cargo feature `rocket`.\n")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (None, {}),
        ({"features": "cuda"}, {"build-args": ["--features", "cuda"]}),
        ({"features": ["vulkan", "cuda"]}, {"build-args": ["--features", "cuda,vulkan"]}),
        (
            {"features": "cuda", "build-args": "--offline -v"},
            {"build-args": ["--offline", "-v", "--features", "cuda"]},
        ),
        ({"features": "cuda", "maturin.build-args": ["-v"]}, {"build-args": ["-v", "--features", "cuda"]}),
        ({"build-args": "-v"}, {"build-args": "-v"}),
    ],
)
def test_features_become_arguments_of_maturin(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    settings: dict[str, object] | None,
    expected: dict[str, object],
) -> None:
    monkeypatch.setattr(os, "environ", {**os.environ, "CARGO_TARGET_DIR": str(tmp_path)})
    monkeypatch.delenv("LLMSERVE_CARGO_FEATURES", raising=False)
    assert backend._prepare(settings) == expected


def test_the_environment_chooses_features_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "environ", {**os.environ, "CARGO_TARGET_DIR": str(tmp_path)})
    monkeypatch.setenv("LLMSERVE_CARGO_FEATURES", "vulkan")
    assert backend._prepare({}) == {"build-args": ["--features", "vulkan"]}


def test_the_source_distribution_can_be_built_from(tmp_path: Path) -> None:
    result = _hook(f"import backend; backend.build_sdist({str(tmp_path)!r})")
    assert result.returncode == 0, result.stderr
    version = _cargo_version()
    with tarfile.open(tmp_path / f"llmserve-{version}.tar.gz") as archive:
        names = {name.removeprefix(f"llmserve-{version}/") for name in archive.getnames()}
    needed = {"Cargo.toml", "Cargo.lock", ".cargo/config.toml", "pyproject.toml", "README.md", "LICENSE-MIT"}
    needed |= {f"build_support/{path.name}" for path in (ROOT / "build_support").glob("*.py")}
    needed |= set(_tracked("crates", ".rs", ".toml", ".cpp", ".h")) | set(_tracked("python", ".py", ".pyi"))
    needed = {name for name in needed if not re.search(r"^crates/[^/]+/(tests|benches)/", name)}
    assert needed - names == set()
    assert not [name for name in names if name.endswith((".so", ".gguf", ".pyc"))]


def test_the_version_is_that_of_the_workspace() -> None:
    assert importlib.metadata.version("llmserve") == _cargo_version()


def _cargo_version() -> str:
    found = re.search(r'^version = "([^"]+)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def _tracked(folder: str, *endings: str) -> list[str]:
    found = (path.relative_to(ROOT) for path in (ROOT / folder).rglob("*"))
    return [str(path) for path in found if path.suffix in endings and "__pycache__" not in path.parts]
