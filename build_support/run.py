"""Run a command under the native build environment: ``python build_support/run.py cargo test``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from native import native_environment, requested_features
from toolchain import BuildSetupError


def build_environment() -> dict[str, str]:
    """This process's environment with the native build's, and this interpreter's programs, in it."""
    env = {**os.environ, **native_environment(requested_features())}
    env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env["PATH"]])
    return env


def main() -> None:
    """Replace this process by the command."""
    if len(sys.argv) < 2:
        sys.exit("usage: python build_support/run.py COMMAND [ARGUMENT...]")
    try:
        env = build_environment()
    except BuildSetupError as error:
        sys.exit(f"llmserve: {error}")
    os.environ["PATH"] = env["PATH"]  # the command itself is looked up there, too
    os.execvpe(sys.argv[1], sys.argv[1:], env)


if __name__ == "__main__":
    main()
