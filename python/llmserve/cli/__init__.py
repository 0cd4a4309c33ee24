"""The command ``llmserve``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from llmserve.cli.errors import FAILED, INTERRUPTED, as_command_error
from llmserve.cli.parser import parse


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit status."""
    given = argparse.Namespace(is_own_process=argv is None)
    try:
        arguments = parse(sys.argv[1:] if argv is None else argv, given)
        return int(arguments.run(arguments))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has enough. Python would complain at the end of the process.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        if (shown := as_command_error(error)) is None:
            raise
        sys.stderr.write(f"llmserve: {shown}\n")
        return shown.status
