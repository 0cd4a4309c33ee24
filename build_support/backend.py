"""The PEP 517 and PEP 660 build backend: maturin's, inside the native build environment."""

from __future__ import annotations

import os

import maturin
from native import native_environment

os.environ.update(native_environment(os.environ.get("LLMSERVE_CARGO_FEATURES", "")))

build_wheel = maturin.build_wheel
build_sdist = maturin.build_sdist
build_editable = maturin.build_editable
get_requires_for_build_wheel = maturin.get_requires_for_build_wheel
get_requires_for_build_sdist = maturin.get_requires_for_build_sdist
get_requires_for_build_editable = maturin.get_requires_for_build_editable
prepare_metadata_for_build_wheel = maturin.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = maturin.prepare_metadata_for_build_editable
