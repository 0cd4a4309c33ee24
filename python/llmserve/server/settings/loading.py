"""Reads :class:`Settings` from the file of settings, the environment and overrides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmserve.model_config import ModelConfig
from llmserve.server.api_keys import ApiKeys
from llmserve.server.settings.drafting import DraftSettings
from llmserve.server.settings.environment import Environment, Notice, sort_out
from llmserve.server.settings.error import SettingsError
from llmserve.server.settings.load_options import MODEL_VARIABLES, TEMPLATE_FILE
from llmserve.server.settings.sources import Sources
from llmserve.server.settings.variables import API_KEY_FILE, DRAFT_VARIABLES, SERVER_VARIABLES, VARIABLES


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that is chosen when the server starts. Durations are in seconds, sizes in bytes."""

    host: str
    port: int
    grpc: bool
    grpc_port: int | None
    grpc_host: str
    uds: Path | None
    root_path: str
    model: Path | None
    served_model_name: str | None
    models_dir: Path | None
    catalogue: Path | None
    load_wait_s: float
    model_memory_bytes: int | None
    api_key: ApiKeys
    priority_key_file: ApiKeys
    """Those of the API keys whose requests have a larger share."""
    priority_weight: int
    trust_fairness_id: bool
    ssl_certfile: Path | None
    ssl_keyfile: Path | None
    metrics_open: bool
    vllm_metrics: bool
    llamacpp_metrics: bool
    kv_events: str | None
    kv_events_pod: str
    sessions_dir: Path | None
    cache_dir: Path
    max_body_bytes: int
    max_bodies_bytes: int
    body_timeout_s: float
    sse_ping_s: float
    stall_s: float
    prestop_s: float
    grace_s: float
    allowed_hosts: tuple[str, ...]
    cors_origins: tuple[str, ...]
    default_sampling: Mapping[str, Any]
    request_chat_template: bool
    reasoning_budget: int
    reasoning_budget_message: str | None
    session_ttl_s: float
    max_sessions: int
    max_responses: int
    max_responses_bytes: int
    log_level: str
    log_format: str
    traces: bool
    drafting: DraftSettings
    model_config: ModelConfig
    notices: tuple[Notice, ...]
    """Remarks about the environment for the log."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The addresses to listen on."""
        return tuple(part.strip() for part in self.host.split(",")) or ("",)

    @property
    def model_folders(self) -> tuple[Path, ...]:
        """Where models are looked for by name; downloads go to the first.

        That is ``MODELS_DIR``, if it is set, since the server lists what is in it.
        """
        cached = self.cache_dir / "models"
        return (cached,) if self.models_dir is None else (self.models_dir, cached)


def parse_settings(environ: Mapping[str, str], overrides: Mapping[str, str] | None = None) -> Settings:
    """Reads the settings from environment variables; ``overrides`` (by :attr:`Variable.name`) win.

    What neither has is read from the file of settings, if they name one. An empty value counts as unset.

    Raises:
        SettingsError: A misspelt ``LLMSERVE_*`` name, an unknown key of the file, or a bad value.
    """
    environment = sort_out(environ, [variable.env for variable in VARIABLES])
    _refuse_misspelt(environment)
    sources = Sources(environment.variables, overrides or {})
    server = sources.values(SERVER_VARIABLES)
    model = sources.values(MODEL_VARIABLES)
    model["chat_template"] = sources.either("chat_template", model["chat_template"], TEMPLATE_FILE)
    # Unset fields keep ModelConfig's own defaults, so that there is one place that knows them.
    config = ModelConfig(**{name: value for name, value in model.items() if value is not None})
    server["grpc_host"] = server["grpc_host"] or server["host"].partition(",")[0].strip()
    server["kv_events_pod"] = server["kv_events_pod"] or f"{server['grpc_host']}:{server['port']}"
    server["root_path"] = (server["root_path"] or "").rstrip("/")
    server["cache_dir"] = server["cache_dir"] or default_cache_dir(environ)
    server["allowed_hosts"] = server["allowed_hosts"] or ()
    server["max_bodies_bytes"] = _max_bodies_bytes(server["max_bodies_bytes"], server["max_body_bytes"])
    server["cors_origins"] = server["cors_origins"] or ()
    server["default_sampling"] = server["default_sampling"] or {}
    server["api_key"] = sources.either("api_key", server["api_key"], API_KEY_FILE) or ApiKeys()
    server["priority_key_file"] = server["priority_key_file"] or ApiKeys()
    server["api_key"] |= server["priority_key_file"]
    _, _, events_port = (server["kv_events"] or "").rpartition(":")
    if events_port == str(server["port"]):
        raise SettingsError(f"LLMSERVE_KV_EVENTS needs a port of its own: {events_port} is the server's")
    if server["ssl_keyfile"] is not None and server["ssl_certfile"] is None:
        raise SettingsError("ssl_keyfile needs ssl_certfile, which is not set")
    return Settings(
        **server,
        drafting=DraftSettings(**sources.values(DRAFT_VARIABLES)),
        model_config=config,
        notices=environment.notices,
    )


def _max_bodies_bytes(given: int | None, of_one: int) -> int:
    if given is None:
        return 16 * of_one
    if given < of_one:
        raise SettingsError(
            f"LLMSERVE_MAX_BODIES_BYTES must be at least LLMSERVE_MAX_BODY_BYTES ({of_one}), got {given}"
        )
    return given


def default_cache_dir(environ: Mapping[str, str]) -> Path:
    """The user's cache folder for llmserve (XDG base directory specification)."""
    base = environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "llmserve"


def _refuse_misspelt(environment: Environment) -> None:
    if environment.misspelt:
        name, setting = next(iter(environment.misspelt.items()))
        raise SettingsError(f"{name} is not a setting of llmserve", f"did you mean {setting}?")
