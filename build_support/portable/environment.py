"""With what a portable wheel is compiled and linked."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Iterable
from pathlib import Path

from native import cache_dir, native_environment, target_dir
from portable.old_glibc import make_link_folder
from toolchain import ROOT, BuildSetupError, cxx_command, output

# The folder of the libraries, beside the extension module (also in `llmserve_shim.cpp`).
LIBRARIES = "_native"

_HERE = Path(__file__).resolve().parent
_STUBS = (_HERE / "newer_glibc.c", _HERE / "old_glibc.py")
# What goes into llama.cpp's libraries and is not llama.cpp's.
_SHIM = ROOT / "crates" / "llmserve-engine" / "shim"
_SOURCES = sorted(path for folder in (_HERE / "cmake", _SHIM) for path in folder.rglob("*.*"))


def portable_environment(target: str, features: tuple[str, ...]) -> dict[str, str]:
    """The environment variables of the build for a Rust target, with these cargo features.

    Raises:
        BuildSetupError: something is missing, or the C++ compiler is not GCC.
    """
    compiler = cxx_command()
    if "Free Software Foundation" not in output([*compiler, "--version"]):
        raise BuildSetupError("wheels are built with GCC.\nhint: set `CXX=g++` and `CC=gcc`")
    # Nothing is linked again because a stub has changed, but all is built in another folder if a flag has.
    folder = cache_dir() / "build-tools" / f"link-{target}-{_hash(_STUBS)}"
    make_link_folder(folder, compiler, _HERE / "newer_glibc.c")
    link_args = ["-Wl,--exclude-libs,libstdc++.a", "-Wl,--allow-shlib-undefined"]
    rust_flags = ["-Lnative=" + str(folder), f"-Clink-arg=-Wl,-rpath,$ORIGIN/{LIBRARIES}"]
    variables = {
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join([*rust_flags, *(f"-Clink-arg={arg}" for arg in link_args)]),
        "LDFLAGS": shlex.join([f"-L{folder}", *link_args]),
        "CMAKE_PROJECT_INCLUDE": str(_HERE / "cmake" / "ggml.cmake"),
        "CMAKE_INSTALL_RPATH": "$ORIGIN",
    }
    os.environ.update(variables)
    os.environ["CARGO_TARGET_DIR"] = str(target_dir(features))
    # cargo runs llama.cpp's build again when a variable of this kind has changed.
    return native_environment(features) | variables | {"GGML_LLMSERVE_SOURCES": _hash(_SOURCES)}


def _hash(files: Iterable[Path]) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]
