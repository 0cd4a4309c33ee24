"""Building for another architecture, with the cross compiler of Debian."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from toolchain import BuildSetupError, output


def binutil(target: str, name: str) -> str:
    """The name of a program for a Rust target, such as `aarch64-linux-gnu-strip`."""
    return f"{_system(target)}-{name}"


def cross_environment(target: str) -> dict[str, str]:
    """The environment variables of the build for this Rust target; this process then has its compilers.

    Raises:
        BuildSetupError: a compiler, or Rust's library for the target, is missing.
    """
    compiler = binutil(target, "g++")
    if not shutil.which(compiler):
        package = f"g++-{_system(target)}"
        raise BuildSetupError(f"`{compiler}` was not found.\nhint: it is in Debian's package `{package}`")
    if not Path(output(["rustc", "--print", "target-libdir", "--target", target])).is_dir():
        hint = f"hint: rustup target add {target}"
        raise BuildSetupError(f"Rust's library for `{target}` is missing.\n{hint}")
    os.environ |= {"CXX": compiler, "CC": binutil(target, "gcc")}
    gcc_headers = output([compiler, "-print-file-name=include"])
    return {
        f"CARGO_TARGET_{target.upper().replace('-', '_')}_LINKER": binutil(target, "gcc"),
        "BINDGEN_EXTRA_CLANG_ARGS": f"-I{gcc_headers} -isystem /usr/{_system(target)}/include",
    }


def _system(target: str) -> str:
    return target.replace("-unknown", "")
