"""How a command fails: one line, perhaps a hint, and an exit status."""

from __future__ import annotations

from llmserve.errors import LlmserveError, LoadError
from llmserve.server.download import PullError
from llmserve.server.load_failures import described
from llmserve.server.model_header import HeaderError
from llmserve.server.settings import SettingsError
from llmserve.server.start_error import StartError

FAILED = 1
"""Exit status of a command that could not do its work."""
WRONG_USAGE = 2
"""Exit status of a command that is written wrongly: options, settings, files of settings."""
INTERRUPTED = 130
"""Exit status after Ctrl-C."""


class CommandError(Exception):
    """A command failed; ``str()`` is what is shown after ``llmserve: ``."""

    status = FAILED

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}\nhint: {hint}" if hint else message)


class UsageError(CommandError):
    """The command line is wrong."""

    status = WRONG_USAGE


def as_command_error(error: Exception) -> CommandError | None:
    """The error as it is shown, or ``None`` if it is a fault of the program."""
    if isinstance(error, CommandError):
        return error
    if isinstance(error, SettingsError):
        return UsageError(str(error))
    if isinstance(error, LoadError):
        return CommandError(described(error, getattr(error, "path", None)))
    if isinstance(error, PullError | StartError | HeaderError | LlmserveError):
        return CommandError(str(error))
    if isinstance(error, OSError) and error.filename is not None:
        return CommandError(f"{error.filename}: {(error.strerror or str(error)).lower()}")
    return None
