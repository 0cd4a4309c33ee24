"""Reads :class:`Settings` from the environment and from overrides."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmserve.api_keys import ApiKeys
from llmserve.model_config import ModelConfig
from llmserve.settings.drafting import DraftSettings
from llmserve.settings.variables import (
    DRAFT_VARIABLES,
    MODEL_VARIABLES,
    SERVER_VARIABLES,
    VARIABLES,
    Variable,
)

_PREFIX = "LLMSERVE_"

# Read by the project's build and tests, not settings of the server.
_FOREIGN = ("LLMSERVE_CARGO_FEATURES", "LLMSERVE_PEER_DIR", "LLMSERVE_SYNTHETIC_DIR", "LLMSERVE_TEST_")


class SettingsError(ValueError):
    """A setting that is unknown or out of range; the text names it, the limit and the value met."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that is chosen when the server starts. Durations are in seconds, sizes in bytes."""

    host: str
    port: int
    grpc_port: int | None
    grpc_host: str
    model: Path | None
    models_dir: Path | None
    catalogue: Path | None
    load_wait_s: float
    model_memory_bytes: int | None
    api_key: ApiKeys
    sessions_dir: Path | None
    cache_dir: Path
    max_body_bytes: int
    max_bodies_bytes: int
    body_timeout_s: float
    sse_ping_s: float
    stall_s: float
    grace_s: float
    cors_origins: tuple[str, ...]
    session_ttl_s: float
    max_sessions: int
    log_level: str
    drafting: DraftSettings
    model_config: ModelConfig


def parse_settings(environ: Mapping[str, str], overrides: Mapping[str, str] | None = None) -> Settings:
    """Settings from environment variables; ``overrides`` (by :attr:`Variable.name`) win.

    An empty text counts as unset.

    Raises:
        SettingsError: An unknown ``LLMSERVE_*`` name, or a bad value.
    """
    _refuse_unknown(environ)
    overrides = overrides or {}
    server = {variable.name: _value(variable, environ, overrides) for variable in SERVER_VARIABLES}
    model = {variable.name: _value(variable, environ, overrides) for variable in MODEL_VARIABLES}
    # Unset fields keep ModelConfig's own defaults, so that there is one place that knows them.
    config = ModelConfig(**{name: value for name, value in model.items() if value is not None})
    server["grpc_host"] = server["grpc_host"] or server["host"]
    server["cache_dir"] = server["cache_dir"] or default_cache_dir(environ)
    server["max_bodies_bytes"] = _max_bodies_bytes(server["max_bodies_bytes"], server["max_body_bytes"])
    server["cors_origins"] = server["cors_origins"] or ()
    server["api_key"] = server["api_key"] or ApiKeys()
    draft = {variable.name: _value(variable, environ, overrides) for variable in DRAFT_VARIABLES}
    return Settings(**server, drafting=DraftSettings(**draft), model_config=config)


def _max_bodies_bytes(given: int | None, of_one: int) -> int:
    if given is None:
        return 16 * of_one
    if given < of_one:
        raise SettingsError(
            f"LLMSERVE_MAX_BODIES_BYTES must be at least the {of_one} of one body, got {given}"
        )
    return given


def default_cache_dir(environ: Mapping[str, str]) -> Path:
    """The user's cache folder for llmserve (XDG base directory specification)."""
    base = environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "llmserve"


def _value(variable: Variable, environ: Mapping[str, str], overrides: Mapping[str, str]) -> Any:
    if variable.name in overrides:
        label, text = variable.option, overrides[variable.name]
    else:
        label, text = variable.env, environ.get(variable.env, "") or variable.default
    if text == "":
        return None
    try:
        return variable.kind.parse(text)
    except ValueError as error:
        raise SettingsError(f"{label} {error}") from None


def _refuse_unknown(environ: Mapping[str, str]) -> None:
    known = {variable.env for variable in VARIABLES}
    for name in sorted(environ):
        if name.startswith(_PREFIX) and name not in known and not name.startswith(_FOREIGN):
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
            raise SettingsError(f"{name} is not a setting of llmserve\nhint: did you mean {close[0]}?")
