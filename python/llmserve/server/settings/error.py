"""What is raised about settings."""

from __future__ import annotations


class SettingsError(ValueError):
    """A setting is unknown or has a bad value; the text gives its name, the limit and the value."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}\nhint: {hint}" if hint else message)
