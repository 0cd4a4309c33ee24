"""The PEP 517 and PEP 660 build backend: maturin's, inside the native build environment.

``pip install . --config-settings=features=cuda`` chooses cargo features, as does the environment
variable ``LLMSERVE_CARGO_FEATURES``.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import Any

from native import native_environment, requested_features
from progress import ProgressReporter
from toolchain import BuildSetupError, require_toolchain

Settings = Mapping[str, Any]


def get_requires_for_build_wheel(config_settings: Settings | None = None) -> list[str]:
    """Nothing beyond `build-system.requires`; first of all reports what the machine lacks."""
    _check()
    return []


def get_requires_for_build_sdist(config_settings: Settings | None = None) -> list[str]:
    """Nothing beyond `build-system.requires`."""
    return []


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings | None = None) -> str:
    """Write the wheel's `.dist-info` directory; returns its name."""
    settings = _prepare(config_settings)
    return str(_maturin().prepare_metadata_for_build_wheel(metadata_directory, settings))


def build_wheel(
    wheel_directory: str, config_settings: Settings | None = None, metadata_directory: str | None = None
) -> str:
    """Build a wheel for this machine; returns its file name."""
    settings = _prepare(config_settings)
    with _progress():
        return str(_maturin().build_wheel(wheel_directory, settings, metadata_directory))


def build_editable(
    wheel_directory: str, config_settings: Settings | None = None, metadata_directory: str | None = None
) -> str:
    """Build the extension module into `python/llmserve` and a wheel that points there."""
    settings = _prepare(config_settings)
    with _progress():
        return str(_maturin().build_editable(wheel_directory, settings, metadata_directory))


def build_sdist(sdist_directory: str, config_settings: Settings | None = None) -> str:
    """Pack the sources that a wheel can be built from; returns the file name."""
    _check()
    return str(_maturin().build_sdist(sdist_directory, config_settings))


get_requires_for_build_editable = get_requires_for_build_wheel
prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def _prepare(config_settings: Settings | None) -> dict[str, Any]:
    """Set this process's environment for the build; returns the settings for maturin."""
    settings = dict(config_settings or {})
    chosen = settings.pop("features", None)
    if chosen is not None and not isinstance(chosen, str):
        chosen = " ".join(chosen)
    try:
        features = requested_features(chosen)
        os.environ.update(native_environment(features))
    except BuildSetupError as error:
        _fail(error)
    if features:
        settings["build-args"] = [*_build_args(settings), "--features", ",".join(features)]
        settings.pop("maturin.build-args", None)
    return settings


def _build_args(settings: Settings) -> list[str]:
    given = settings.get("maturin.build-args", settings.get("build-args"))
    if given is None:
        given = os.environ.get("MATURIN_PEP517_ARGS", "")
    return shlex.split(given) if isinstance(given, str) else list(given)


def _check() -> None:
    try:
        require_toolchain()
    except BuildSetupError as error:
        _fail(error)


def _fail(error: BuildSetupError) -> None:
    sys.exit(f"llmserve: {error}")


def _maturin() -> ModuleType:
    # Imported late: without build isolation it may be missing, which deserves a better message.
    try:
        import maturin
    except ModuleNotFoundError:
        sys.exit(
            "llmserve: the build tool `maturin` was not found.\nhint: `pip install maturin cmake ninja "
            "libclang`, or leave out `--no-build-isolation`"
        )
    module: ModuleType = maturin
    return module


def _progress() -> AbstractContextManager[object]:
    # pip shows a spinner that turns with each line of output, and the lines themselves with `-v`.
    return ProgressReporter(Path(os.environ["CARGO_TARGET_DIR"]), interval_s=5.0)
