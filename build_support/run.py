"""Run a command under the native build environment: ``python build_support/run.py cargo test``."""

from __future__ import annotations

import os
import sys

from native import BuildSetupError, native_environment


def main() -> None:
    """Replace this process by the command."""
    try:
        env = {**os.environ, **native_environment(os.environ.get("LLMSERVE_CARGO_FEATURES", ""))}
    except BuildSetupError as error:
        sys.exit(f"llmserve: {error}")
    os.execvpe(sys.argv[1], sys.argv[1:], env)


if __name__ == "__main__":
    main()
