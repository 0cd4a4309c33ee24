"""Why a server cannot start."""

from __future__ import annotations


class StartError(RuntimeError):
    """The server cannot start. The text is for the operator; a second line may be a hint."""
