"""The compilers that the native build needs, and what to say when one is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class BuildSetupError(Exception):
    """Something that the native build needs is missing; the message says what, and how to get it."""


def require_toolchain() -> None:
    """Check for cargo, rustc and a C++ compiler.

    Raises:
        BuildSetupError: one of them is missing, does not run, or is too old.
    """
    _require_rust()
    _require_cxx()


def cargo_bin_dir() -> Path | None:
    """Where rustup put cargo, if the shell's PATH does not have it yet."""
    if shutil.which("cargo"):
        return None
    home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    return home / "bin" if (home / "bin" / "cargo").exists() else None


def search_path() -> str:
    """PATH, with rustup's directory added where the shell lacks it."""
    path = os.environ.get("PATH", "")
    extra = cargo_bin_dir()
    return os.pathsep.join([str(extra), path]) if extra else path


def output(command: list[str]) -> str:
    """Standard output of a command that must succeed, stripped."""
    # Asking for a version must not make rustup download a toolchain.
    env = {**os.environ, "PATH": search_path(), "RUSTUP_AUTO_INSTALL": "0", "LC_ALL": "C"}
    return subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout.strip()


def minimum_rust_version() -> tuple[int, ...]:
    """`rust-version` of the workspace."""
    found = re.search(r'^rust-version = "([\d.]+)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    if found is None:
        raise BuildSetupError("`Cargo.toml` has no `rust-version`")
    return _version(found[1])


def cxx_command() -> list[str]:
    """The C++ compiler with its leading arguments, as cmake will call it."""
    return os.environ.get("CXX", "c++").split() or ["c++"]


def _require_rust() -> None:
    wanted = minimum_rust_version()
    shown = ".".join(map(str, wanted))
    hint = f"hint: install Rust {shown} or newer with rustup, or with your system's package manager"
    for program in ("cargo", "rustc"):
        if not shutil.which(program, path=search_path()):
            raise BuildSetupError(f"`{program}` was not found: llmserve's engine is written in Rust.\n{hint}")
    try:
        found = re.search(r"(\d+)\.(\d+)\.(\d+)", output(["rustc", "--version"]))
    except subprocess.CalledProcessError as error:
        reason = (error.stderr or "no output").strip().splitlines()[0]
        raise BuildSetupError(
            f"`rustc --version` failed: {reason}\nhint: `rustup toolchain install stable`"
        ) from None
    if found is None or _version(found[0]) < wanted:
        version = found[0] if found else "of unknown version"
        raise BuildSetupError(
            f"`rustc` is {version}, llmserve needs {shown} or newer.\nhint: `rustup update`"
        )


def _require_cxx() -> None:
    compiler = cxx_command()[0]
    if not shutil.which(compiler):
        raise BuildSetupError(
            f"the C++ compiler `{compiler}` was not found: llama.cpp is built from source.\n"
            "hint: on Debian or Ubuntu `apt-get install g++`, on macOS `xcode-select --install`; "
            "another compiler is chosen by the environment variable `CXX`"
        )


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def main() -> None:
    """Check the toolchain from a shell: exit status 1 and the reason if something is missing."""
    try:
        require_toolchain()
    except BuildSetupError as error:
        sys.exit(f"llmserve: {error}")


if __name__ == "__main__":
    main()
