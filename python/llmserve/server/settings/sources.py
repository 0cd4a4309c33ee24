"""Where the value of a setting comes from: an option, the environment, the file of settings, its default."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from llmserve.server.settings.error import SettingsError
from llmserve.server.settings.variable import Variable
from llmserve.server.settings.variables import CONFIG_FILE


class Sources:
    """The texts of settings. The first source that has a setting counts; an empty text counts as unset."""

    def __init__(self, environ: Mapping[str, str], overrides: Mapping[str, str]) -> None:
        """``overrides`` are options, by :attr:`Variable.name`.

        Raises:
            SettingsError: The file of settings cannot be read, or has an unknown key.
        """
        self._environ = environ
        self._overrides = overrides
        self._path = ""
        self._file: Mapping[str, str] = {}
        if (path := self.value(CONFIG_FILE)) is not None:
            # Imported late: most starts read no TOML.
            from llmserve.server.settings.config_file import read_config_file

            self._path, self._file = str(path), read_config_file(path)

    def value(self, variable: Variable) -> Any:
        """The value of a setting, or ``None`` if it is unset.

        Raises:
            SettingsError: The text is wrong.
        """
        label, text = self._text(variable)
        if text == "":
            return None
        try:
            return variable.kind.parse(text)
        except ValueError as error:
            raise SettingsError(f"{label} {error}") from None

    def values(self, variables: Iterable[Variable]) -> dict[str, Any]:
        """The values of settings by name."""
        return {variable.name: self.value(variable) for variable in variables}

    def either(self, name: str, value: Any, file: Variable) -> Any:
        """A value that is given by itself or in a file of its own.

        Raises:
            SettingsError: It is given both ways.
        """
        content = self.value(file)
        if content is not None and value is not None:
            raise SettingsError(f"{name} and {file.name} cannot both be set")
        return value if content is None else content

    def _text(self, variable: Variable) -> tuple[str, str]:
        """What a message calls the setting, and its text."""
        if variable.name in self._overrides:
            return variable.option, self._overrides[variable.name]
        if text := self._environ.get(variable.env, ""):
            return variable.env, text
        if text := self._file.get(variable.name, ""):
            return f"{self._path}: {variable.name}", text
        return variable.env, variable.default
