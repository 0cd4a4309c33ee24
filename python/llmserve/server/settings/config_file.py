"""The file of settings: TOML, whose keys are names of settings, in tables or not."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from llmserve.server.settings.error import SettingsError
from llmserve.server.settings.toml_values import as_setting
from llmserve.server.settings.variable import GROUPS
from llmserve.server.settings.variables import CONFIG_FILE, VARIABLES
from llmserve.server.spelling import did_you_mean

_KNOWN = {variable.name: variable for variable in VARIABLES if variable is not CONFIG_FILE}


def read_config_file(path: Path) -> Mapping[str, str]:
    """The texts of the settings in a file, by name. Relative paths start at its folder.

    Raises:
        SettingsError: The file cannot be read, or has a key that is unknown or given twice.
    """
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # of TOML, or of UTF-8
        raise SettingsError(f"{path} is not valid TOML: {error}") from None
    folder = path.absolute().parent
    texts: dict[str, str] = {}
    for key, value in _items(path, document):
        name = key.replace("-", "_")
        if name not in _KNOWN:
            raise SettingsError(f"{path}: {key} is unknown", did_you_mean(name, _KNOWN))
        if name in texts:
            raise SettingsError(f"{path}: {name} is given twice")
        texts[name] = _KNOWN[name].kind.based(as_setting(value), folder)
    return texts


def _items(path: Path, document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """All keys, those of tables too."""
    for key, value in document.items():
        if key in GROUPS and isinstance(value, dict):
            yield from value.items()
        elif isinstance(value, dict) and key.replace("-", "_") not in _KNOWN:
            hint = did_you_mean(key, GROUPS) or f"tables are {', '.join(GROUPS)}"
            raise SettingsError(f"{path}: the table [{key}] is unknown", hint)
        else:
            yield key, value
