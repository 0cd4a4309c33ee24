"""The catalogue as a TOML file: ``[[models]]`` with ``id``, ``path``, ``max_new_tokens`` and options."""

from __future__ import annotations

import dataclasses
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llmserve.model_config import LoraAdapter, ModelConfig
from llmserve.server.model_files import model_file
from llmserve.server.models.entries import CatalogueEntry
from llmserve.server.models.models_folder import safe_id
from llmserve.server.settings import DraftSettings, SettingsError
from llmserve.server.settings.default_sampling import DEFAULT_SAMPLING
from llmserve.server.settings.kinds import MODEL_ID
from llmserve.server.settings.load_options import INT31_MAX, MODEL_VARIABLES, TEMPLATE_FILE
from llmserve.server.settings.sizes import token_count
from llmserve.server.settings.toml_values import as_setting
from llmserve.server.settings.variables import DRAFT_VARIABLES
from llmserve.server.spelling import did_you_mean

_LOAD_OPTIONS = {variable.name: variable.kind for variable in MODEL_VARIABLES}
_DRAFT_OPTIONS = {variable.name: variable.kind for variable in DRAFT_VARIABLES}
_OPTIONS = {**_LOAD_OPTIONS, **_DRAFT_OPTIONS}
_OWN_KEYS = ("id", "path", "max_new_tokens", "default_sampling", TEMPLATE_FILE.name)


def read_catalogue(
    path: Path,
    defaults: ModelConfig,
    drafting: DraftSettings | None = None,
    default_sampling: Mapping[str, Any] | None = None,
) -> tuple[CatalogueEntry, ...]:
    """The entries of a file. Relative paths start at its folder.

    Options that an entry does not set are those of ``defaults``, ``drafting`` and ``default_sampling``.

    Raises:
        SettingsError: The file is unreadable, or has an unknown key or a bad value, which the text names.
    """
    reader = _Reader(path.absolute().parent, defaults, drafting or DraftSettings(), default_sampling or {})
    try:
        return _entries(reader, path.read_text("utf-8"))
    except OSError as error:
        raise SettingsError(f"the catalogue {path} cannot be read: {error.strerror or error}") from None
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from None
    except ValueError as error:  # of TOML, or of UTF-8
        raise SettingsError(f"the catalogue {path} is not valid TOML: {error}") from None


def _entries(reader: _Reader, text: str) -> tuple[CatalogueEntry, ...]:
    document = tomllib.loads(text)
    for key in document:
        if key != "models":
            raise SettingsError(f"catalogue: unknown key {key!r}; only [[models]] is allowed")
    tables = document.get("models", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise SettingsError("catalogue: models must be an array of tables, written as [[models]]")
    entries = tuple(reader.entry(table, number) for number, table in enumerate(tables, 1))
    _refuse_duplicates(entries)
    _refuse_two_ways_to_draft(entries)
    return entries


def _refuse_duplicates(entries: tuple[CatalogueEntry, ...]) -> None:
    seen: dict[str, str] = {}
    for entry in entries:
        if (other := seen.setdefault(safe_id(entry.id), entry.id)) is not entry.id:
            raise SettingsError(f"catalogue: duplicate id {entry.id!r} (an earlier entry has {other!r})")


def _refuse_two_ways_to_draft(entries: tuple[CatalogueEntry, ...]) -> None:
    for number, entry in enumerate(entries):
        for other in entries[:number]:
            shares_engine = (other.path, other.config) == (entry.path, entry.config)
            if shares_engine and other.drafting != entry.drafting:
                raise SettingsError(
                    f"catalogue: {entry.id!r} and {other.id!r} are the same model, because their file and "
                    "load options are the same; they cannot draft differently"
                )


class _Reader:
    """Reads entries; ``folder`` is where relative paths start."""

    def __init__(
        self,
        folder: Path,
        defaults: ModelConfig,
        drafting: DraftSettings,
        default_sampling: Mapping[str, Any],
    ) -> None:
        self._folder = folder
        self._defaults = defaults
        self._drafting = drafting
        self._default_sampling = default_sampling

    def entry(self, table: Mapping[str, Any], number: int) -> CatalogueEntry:
        label = f"catalogue entry {number}"
        model_id = _text(table, "id", label)
        _parsed(MODEL_ID.parse, model_id, f"{label}: id")
        label = f"catalogue entry {model_id!r}"
        path = model_file(self._folder / Path(_text(table, "path", label)).expanduser())
        options = {key: self._option(key, value, label) for key, value in table.items() if key in _OPTIONS}
        for key in table:
            if key not in _OPTIONS and key not in _OWN_KEYS:
                raise SettingsError(
                    f"{label}: the key {key!r} is unknown", did_you_mean(key, [*_OWN_KEYS, *_OPTIONS])
                )
        limit = table.get("max_new_tokens")
        if limit is not None:
            limit = _parsed(token_count(1, INT31_MAX).parse, limit, f"{label}: max_new_tokens")
        options |= self._template(table, label)
        draft = {key: options.pop(key) for key in _DRAFT_OPTIONS if key in options}
        config = dataclasses.replace(self._defaults, **options)
        drafting = dataclasses.replace(self._drafting, **draft)
        return CatalogueEntry(model_id, path, config, limit, drafting, self._sampling(table, label))

    def _sampling(self, table: Mapping[str, Any], label: str) -> Mapping[str, Any]:
        if (given := table.get("default_sampling")) is None:
            return self._default_sampling
        return {
            **self._default_sampling,
            **_parsed(DEFAULT_SAMPLING.parse, given, f"{label}: default_sampling"),
        }

    def _template(self, table: Mapping[str, Any], label: str) -> Mapping[str, str]:
        """The chat template of a file."""
        if (name := TEMPLATE_FILE.name) not in table:
            return {}
        if "chat_template" in table:
            raise SettingsError(f"{label}: chat_template and {name} cannot both be set")
        path = self._real(_text(table, name, label))
        return {"chat_template": _parsed(TEMPLATE_FILE.kind.parse, path, f"{label}: {name}")}

    def _option(self, key: str, value: Any, label: str) -> Any:
        option = _parsed(_OPTIONS[key].parse, value, f"{label}: {key}")
        if key == "lora":
            return tuple(
                LoraAdapter(path=self._real(str(adapter.path)), scale=adapter.scale) for adapter in option
            )
        return option

    def _real(self, path: str) -> Path:
        return Path(os.path.realpath(self._folder / Path(path).expanduser()))


def _text(table: Mapping[str, Any], key: str, label: str) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not value or "\0" in value:
        raise SettingsError(
            f"{label}: {key} must be a string, got {'nothing' if value is None else repr(value)}"
        )
    return value


def _parsed(parse: Any, value: Any, label: str) -> Any:
    try:
        return parse(as_setting(value))
    except ValueError as error:
        raise SettingsError(f"{label} {error}") from None
