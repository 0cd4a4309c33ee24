"""Where and with what the native code is built.

Every entry point (``make``, ``pip install .``, ``cargo`` through ``build_support/run.py``) asks this
module, so that all of them share one target directory and one build of llama.cpp. The directory
lies outside the checkout: a fresh clone on the same machine builds in a minute.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class BuildSetupError(Exception):
    """Something that the native build needs is missing; the message says what and how to get it."""


def cache_dir() -> Path:
    """The user's cache directory for llmserve (models, build tools, native builds)."""
    if configured := os.environ.get("LLMSERVE_CACHE_DIR"):
        return Path(configured)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "llmserve"


def native_environment(features: str = "") -> dict[str, str]:
    """The environment variables under which cargo and maturin build.

    Raises:
        BuildSetupError: no Rust toolchain, C++ compiler, cmake or libclang was found.
    """
    _require_compilers()
    env: dict[str, str] = {}
    tools = cache_dir() / "build-tools"
    path_entries = []
    if cmake := _cached_program("cmake", "cmake/data", "bin/cmake", tools):
        path_entries.append(str(cmake.parent))
    elif not shutil.which("cmake"):
        raise BuildSetupError("`cmake` was not found.\nhint: `pip install cmake`, or Debian's package `cmake`")
    if ninja := _cached_program("ninja", None, "ninja", tools):
        path_entries.append(str(ninja.parent))
    if ninja or shutil.which("ninja"):
        env["CMAKE_GENERATOR"] = "Ninja"
    env |= _libclang_environment(tools)
    if path_entries:
        env["PATH"] = os.pathsep.join([*path_entries, os.environ.get("PATH", "")])
    env["CARGO_TARGET_DIR"] = str(target_dir(features))
    return env


def target_dir(features: str = "") -> Path:
    """The cargo target directory for this CPU, compiler, flags and set of cargo features.

    A build with ``target-cpu=native`` dies with SIGILL on a lesser CPU, so the CPU is in the key.
    """
    if configured := os.environ.get("CARGO_TARGET_DIR"):
        return Path(configured)
    parts = [
        platform.machine(),
        _cpu_identity(),
        _output(["rustc", "--version", "--verbose"]),
        (ROOT / ".cargo" / "config.toml").read_text(),
        os.environ.get("RUSTFLAGS", ""),
        ",".join(sorted(features.replace(",", " ").split())),
    ]
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
    return cache_dir() / "native" / key


def _require_compilers() -> None:
    if not shutil.which("cargo") or not shutil.which("rustc"):
        raise BuildSetupError(
            "the Rust toolchain (`cargo`, `rustc` 1.88 or newer) was not found.\n"
            "hint: install it with rustup, or your system's package manager"
        )
    compiler = os.environ.get("CXX", "c++").split()[0]
    if not shutil.which(compiler):
        raise BuildSetupError(
            f"the C++ compiler `{compiler}` was not found.\nhint: on Debian, `apt-get install g++`; on macOS, "
            "`xcode-select --install`"
        )


def _libclang_environment(tools: Path) -> dict[str, str]:
    """bindgen runs again whenever LIBCLANG_PATH changes, so it gets a path that stays."""
    if configured := os.environ.get("LIBCLANG_PATH"):
        return {"LIBCLANG_PATH": configured}
    package = _package_dir("clang")
    source = package / "native" if package else None
    found = sorted(source.glob("libclang.*")) if source and source.is_dir() else []
    library = next((f for f in found if f.suffix in {".so", ".dylib", ".dll"}), None)
    if library is None:
        cached = tools / "libclang"
        if cached.is_dir():
            return _libclang_variables(cached)
        if _system_libclang():
            return {}
        raise BuildSetupError(
            "`libclang` was not found.\nhint: `pip install libclang`, or Debian's package `libclang-dev`"
        )
    _copy_once(library, tools / "libclang" / library.name)
    return _libclang_variables(tools / "libclang")


def _libclang_variables(folder: Path) -> dict[str, str]:
    env = {"LIBCLANG_PATH": str(folder)}
    # The libclang of PyPI carries no compiler headers (stddef.h and the like); gcc's do.
    if sys.platform == "linux" and shutil.which("gcc"):
        env["BINDGEN_EXTRA_CLANG_ARGS"] = f"-I{_output(['gcc', '-print-file-name=include'])}"
    return env


def _system_libclang() -> bool:
    patterns = ("/usr/lib/llvm-*/lib/libclang*.so*", "/usr/lib/*/libclang*.so*", "/usr/lib*/libclang*.so*")
    return sys.platform == "darwin" or any(next(iter(Path("/").glob(p[1:])), None) for p in patterns)


def _cached_program(module: str, data: str | None, program: str, tools: Path) -> Path | None:
    """Copy a build program out of its PyPI package to a path that outlives a build environment.

    cmake writes the paths of both into its cache, and pip deletes its build environments.
    """
    suffix = ".exe" if os.name == "nt" else ""
    package = _package_dir(module)
    if package is None:
        cached = tools / module / program
        return cached if cached.exists() else None
    if data is not None:
        source_root = package.parent / data
        destination_root = tools / module
        if (source_root / (program + suffix)).exists() and not (destination_root / program).exists():
            _copy_tree_once(source_root, destination_root)
        return destination_root / program
    # The ninja package puts its program beside the interpreter's scripts.
    for folder in (package.parent.parent.parent.parent / "bin", Path(sys.executable).parent):
        if (folder / (program + suffix)).exists():
            _copy_once(folder / (program + suffix), tools / module / program)
            return tools / module / program
    return None


def _package_dir(module: str) -> Path | None:
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def _copy_once(source: Path, destination: Path) -> None:
    if destination.exists():
        return
    destination.parent.mkdir(parents=True, exist_ok=True)
    partial = destination.with_name(f".{destination.name}.{os.getpid()}")
    shutil.copy2(source, partial)
    partial.chmod(0o755)
    partial.replace(destination)


def _copy_tree_once(source: Path, destination: Path) -> None:
    destination.parent.mkdir(parents=True, exist_ok=True)
    partial = destination.with_name(f".{destination.name}.{os.getpid()}")
    shutil.copytree(source, partial, symlinks=True)
    try:
        partial.rename(destination)
    except OSError:  # another build was first
        shutil.rmtree(partial, ignore_errors=True)


def _cpu_identity() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    wanted = ("model name", "flags", "Features", "CPU part")
    return "\n".join(dict.fromkeys(line for line in lines if line.startswith(wanted)))


def _output(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
