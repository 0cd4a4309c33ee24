"""Open a model file once with its options, in a process that may end by it.

Run as a script, `_probe.py LIBRARY MODEL OPTIONS`, without site-packages: it has the native library and
nothing else of llmserve. The options are JSON that the library writes and reads.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys


def main() -> None:
    """Load the native library, let it probe, and exit with what it says."""
    library, model, options = sys.argv[1:]
    loader = importlib.machinery.ExtensionFileLoader("llmserve._core", library)
    spec = importlib.util.spec_from_file_location("llmserve._core", library, loader=loader)
    if spec is None:
        sys.exit(2)
    core = importlib.util.module_from_spec(spec)
    loader.exec_module(core)
    sys.exit(core.probe(model, options))


if __name__ == "__main__":
    main()
