"""What is deployed: the settings of each replica, and how many replicas there are. Nothing here needs Ray."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from llmserve.model_config import ModelConfig
from llmserve.server.models.catalogue_file import read_catalogue
from llmserve.server.settings import VARIABLES, Settings, SettingsError, parse_settings
from llmserve.server.settings.kinds import integer, number
from llmserve.server.spelling import did_you_mean

_SETTINGS = {variable.name: variable for variable in VARIABLES}
_OWN = {
    "replicas": integer(1, 100_000),
    "min_replicas": integer(0, 100_000),
    "max_replicas": integer(1, 100_000),
    "routers": integer(1, 10_000),
    "cpus": number(0),
    "gpus": number(0),
    "upscale_delay_s": number(0),
    "downscale_delay_s": number(0),
}

_END_MARGIN_S = 30.0
"""For what follows the last request of a replica: its sessions are saved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many replicas are deployed, and what each of them is."""

    settings: Settings
    min_replicas: int
    max_replicas: int
    routers: int
    cpus: float
    gpus: float
    upscale_delay_s: float
    downscale_delay_s: float

    @property
    def slots(self) -> int:
        """How many sequences the model with the most of them computes together."""
        return max(_slots(config, self.gpus) for config in _configs(self.settings))

    @property
    def max_ongoing_requests(self) -> int:
        """How many requests a replica takes: what its models compute together, and what may wait for them."""
        return sum(
            _slots(config, self.gpus) + config.max_queued_requests for config in _configs(self.settings)
        )

    @property
    def shutdown_timeout_s(self) -> float:
        """How long a replica has to end."""
        return self.settings.grace_s + _END_MARGIN_S


def plan_of(environ: Mapping[str, str], args: Mapping[str, str], folder: Path) -> Plan:
    """The plan for the arguments of ``serve run``, which are settings of the server or counts of replicas.

    Relative paths start at ``folder``.

    Raises:
        SettingsError: An argument is unknown or wrong.
    """
    texts = {name.replace("-", "_"): str(value) for name, value in args.items()}
    for name in texts:
        if name not in _SETTINGS and name not in _OWN:
            raise SettingsError(f"{name} is unknown", did_you_mean(name, [*_OWN, *_SETTINGS]))
    own = {name: _parsed(name, texts.pop(name)) for name in _OWN if name in texts}
    based = {name: _SETTINGS[name].kind.based(text, folder) for name, text in texts.items()}
    settings = parse_settings(environ, based)
    if "cpus" in own and settings.model_config.threads is None:
        threads = max(1, int(own["cpus"]))
        settings = replace(settings, model_config=replace(settings.model_config, threads=threads))
    minimum, maximum = _bounds(own)
    return Plan(
        # A port for each replica would be needed, and Ray knows only HTTP.
        settings=replace(settings, grpc_port=None),
        min_replicas=minimum,
        max_replicas=maximum,
        routers=int(own.get("routers", 1)),
        cpus=own.get("cpus", float(settings.model_config.threads or 1)),
        gpus=own.get("gpus", 0.0),
        # Ray's own defaults.
        upscale_delay_s=own.get("upscale_delay_s", 30.0),
        downscale_delay_s=own.get("downscale_delay_s", 600.0),
    )


def _parsed(name: str, text: str) -> float:
    try:
        return float(_OWN[name].parse(text))
    except ValueError as error:
        raise SettingsError(f"{name} {error}") from None


def _bounds(own: Mapping[str, float]) -> tuple[int, int]:
    if "replicas" in own:
        if "min_replicas" in own or "max_replicas" in own:
            raise SettingsError("replicas cannot be used with min_replicas or max_replicas: choose one")
        return int(own["replicas"]), int(own["replicas"])
    minimum = int(own.get("min_replicas", 1))
    maximum = int(own.get("max_replicas", max(1, minimum)))
    if minimum > maximum:
        raise SettingsError(f"min_replicas must be at most max_replicas ({maximum}), got {minimum}")
    return minimum, maximum


def _configs(settings: Settings) -> list[ModelConfig]:
    """The options of all models that are known from the start."""
    if settings.catalogue is None:
        return [settings.model_config]
    return [entry.config for entry in read_catalogue(settings.catalogue, settings.model_config)] or [
        settings.model_config
    ]


def _slots(config: ModelConfig, gpus: float) -> int:
    """The engine's own default, where the options do not say."""
    if config.max_sequences is not None:
        return config.max_sequences
    threads = config.threads or len(os.sched_getaffinity(0))
    return 16 if gpus else min(16, max(4, 4 * threads))
