"""cmake, ninja and libclang: found in PyPI packages, and kept where they outlive a build.

pip deletes its build environments, but cmake writes the paths of itself and of ninja into its cache,
and cargo builds llama.cpp again when ``LIBCLANG_PATH`` changes. So the first build copies the
programs out of their packages into the user's cache directory, and every build uses those copies.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
from pathlib import Path

from toolchain import BuildSetupError, cxx_command, output

_EXE = ".exe" if os.name == "nt" else ""


def tool_environment(tools: Path) -> dict[str, str]:
    """Environment variables that lead the native build to its tools, ``PATH_PREFIX`` among them.

    Args:
        tools: the directory that holds the copies.

    Raises:
        BuildSetupError: cmake or libclang is neither in a PyPI package nor on the system.
    """
    env = _libclang_environment(tools)
    folders = []
    if cmake := _kept_tree("cmake", "cmake/data", f"bin/cmake{_EXE}", tools / "cmake"):
        folders.append(str(cmake.parent))
    elif not shutil.which("cmake"):
        raise BuildSetupError(
            "`cmake` was not found: llama.cpp is built with it.\n"
            "hint: `pip install cmake`, or Debian's package `cmake`"
        )
    if ninja := _kept_program("ninja", tools / "ninja"):
        folders.append(str(ninja.parent))
    if ninja or shutil.which("ninja"):
        env["CMAKE_GENERATOR"] = "Ninja"
    env["PATH_PREFIX"] = os.pathsep.join(folders)
    return env


def _libclang_environment(tools: Path) -> dict[str, str]:
    if configured := os.environ.get("LIBCLANG_PATH"):
        return {"LIBCLANG_PATH": configured}
    if sys.platform == "darwin":  # the command line tools have it, with headers that fit the SDK
        return {}
    kept = tools / "libclang"
    names = ("libclang.dll",) if os.name == "nt" else ("libclang.so",)
    library = next((f for n in names if (f := _package_file("libclang", f"clang/native/{n}"))), None)
    if library is not None:
        _copy_once(library, kept / library.name)
    if kept.is_dir():
        return {"LIBCLANG_PATH": str(kept)} | _builtin_headers()
    if _has_system_libclang():
        return {}
    raise BuildSetupError(
        "`libclang` was not found: the bindings to llama.cpp are made with it.\n"
        "hint: `pip install libclang`, or Debian's package `libclang-dev`"
    )


def _builtin_headers() -> dict[str, str]:
    """PyPI's libclang carries no compiler headers (stddef.h and the like); the compiler's own serve."""
    if sys.platform != "linux":
        return {}
    compiler = cxx_command()[0]
    folder = Path(output([compiler, "-print-file-name=include"]))
    return {"BINDGEN_EXTRA_CLANG_ARGS": f"-I{folder}"} if folder.is_absolute() else {}


def _has_system_libclang() -> bool:
    patterns = ("usr/lib/llvm-*/lib/libclang*.so*", "usr/lib/*/libclang*.so*", "usr/lib*/libclang*.so*")
    return any(next(iter(Path("/").glob(pattern)), None) for pattern in patterns)


def _kept_tree(package: str, tree: str, program: str, kept: Path) -> Path | None:
    if not (kept / program).exists() and (source := _package_file(package, f"{tree}/{program}")):
        _copy_tree_once(source.parents[program.count("/")], kept)
    return kept / program if (kept / program).exists() else None


def _kept_program(package: str, kept: Path) -> Path | None:
    name = package + _EXE
    if not (kept / name).exists() and (source := _package_file(package, name)):
        _copy_once(source, kept / name)
    return kept / name if (kept / name).exists() else None


def _package_file(package: str, ending: str) -> Path | None:
    """A file of an installed package, by the last parts of its path."""
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    parts = tuple(ending.split("/"))
    found = (Path(str(f.locate())) for f in files if f.parts[-len(parts) :] == parts)
    return next((path.resolve() for path in found if path.exists()), None)


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
