"""Command line: `python -m tests.synthetic KIND OUT.gguf` or `python -m tests.synthetic --all DIR`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import (
    KINDS,
    write_adapter,
    write_all,
    write_draft_models,
    write_memory_bound,
    write_model,
    write_split,
)


def main(arguments: list[str]) -> int:
    """Writes what `arguments` ask for; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.synthetic", description=__doc__)
    parser.add_argument("--all", type=Path, metavar="DIR", help="write every file, unless DIR is up to date")
    parser.add_argument("kind", nargs="?", choices=[*KINDS, "split", "lora", "draft", "memory_bound"])
    parser.add_argument(
        "out", nargs="?", type=Path, help="the file to write; for `split` and `draft` the folder"
    )
    parser.add_argument("--agreement", type=float, default=0.9, help="of the head of `memory_bound`, 0 to 1")
    options = parser.parse_args(arguments)
    if options.all is not None:
        if options.kind is not None:
            parser.error("--all takes no KIND")
        write_all(options.all)
        return 0
    if options.kind is None or options.out is None:
        parser.error("KIND and OUT are required without --all")
    if options.kind == "split":
        write_split(options.out)
    elif options.kind == "draft":
        write_draft_models(options.out)
    elif options.kind == "memory_bound":
        write_memory_bound(options.out, options.agreement)
    elif options.kind == "lora":
        write_adapter(options.out)
    else:
        write_model(options.kind, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
