"""Where and with what the native code is built.

Every entry point (``make``, ``pip install .``, ``cargo`` through ``build_support/run.py``) asks this
module, so that all of them share one target directory and one build of llama.cpp. The directory
lies outside the checkout: a fresh clone on the same machine builds in a minute.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
import sysconfig
from pathlib import Path

from toolchain import ROOT, BuildSetupError, cxx_command, output, require_toolchain, search_path
from tools import tool_environment

KNOWN_FEATURES = ("cuda", "metal", "vulkan")

# Variables that change the machine code of llama.cpp although cargo does not look at them.
_CODE_VARIABLES = re.compile(
    r"(CC|CXX|CFLAGS|CXXFLAGS|CPPFLAGS|LDFLAGS|RUSTFLAGS|CARGO_ENCODED_RUSTFLAGS)$|(CMAKE|GGML)_"
)
_HARMLESS_VARIABLES = frozenset({"CMAKE_GENERATOR", "CMAKE_BUILD_PARALLEL_LEVEL", "CMAKE_COLOR_DIAGNOSTICS"})


def cache_dir() -> Path:
    """The user's cache directory for llmserve (models, build tools, native builds)."""
    if configured := os.environ.get("LLMSERVE_CACHE_DIR"):
        return Path(configured).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "llmserve"


def requested_features(text: str | None = None) -> tuple[str, ...]:
    """The cargo features in `text`, by default in the variable `LLMSERVE_CARGO_FEATURES`; sorted.

    Raises:
        BuildSetupError: one of them does not exist.
    """
    if text is None:
        text = os.environ.get("LLMSERVE_CARGO_FEATURES", "")
    features = tuple(sorted(set(text.replace(",", " ").split())))
    for feature in features:
        if feature not in KNOWN_FEATURES:
            known = ", ".join(f"`{name}`" for name in KNOWN_FEATURES)
            raise BuildSetupError(f"unknown cargo feature `{feature}`.\nhint: the features are {known}")
    return features


def native_environment(features: tuple[str, ...] = ()) -> dict[str, str]:
    """The environment variables under which cargo and maturin build.

    Raises:
        BuildSetupError: no Rust toolchain, C++ compiler, cmake or libclang was found, or the cache
            directory cannot be written.
    """
    require_toolchain()
    tools = cache_dir() / "build-tools"
    try:
        env = tool_environment(tools)
        env |= _python_abi(tools)
        target = target_dir(features)
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BuildSetupError(
            f"cannot write to `{cache_dir()}`: {error.strerror}.\n"
            "hint: set `LLMSERVE_CACHE_DIR` to a directory of yours with 2 GB of free space"
        ) from None
    prefix = env.pop("PATH_PREFIX")
    env["PATH"] = os.pathsep.join(filter(None, [prefix, search_path()]))
    env["CARGO_TARGET_DIR"] = str(target)
    return env


def target_dir(features: tuple[str, ...] = ()) -> Path:
    """The cargo target directory for this CPU, these compilers, flags and cargo features.

    A build with ``target-cpu=native`` dies with SIGILL on a lesser CPU, so the CPU is in the key.
    """
    if configured := os.environ.get("CARGO_TARGET_DIR"):
        return Path(configured).absolute()
    parts = [
        platform.machine(),
        _cpu_identity(),
        output(["rustc", "--version", "--verbose"]),
        output([*cxx_command(), "--version"]),
        *_cargo_settings(),
        *_code_variables(),
        ",".join(features),
    ]
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
    return cache_dir() / "native" / key


def _cargo_settings() -> list[str]:
    lines = (ROOT / ".cargo" / "config.toml").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def _code_variables() -> list[str]:
    return [
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if _CODE_VARIABLES.match(name) and name not in _HARMLESS_VARIABLES and value
    ]


def _python_abi(tools: Path) -> dict[str, str]:
    """What pyo3 gets to know about Python: the stable ABI, whichever interpreter and environment asks.

    Without it pyo3 would look at the interpreter, and be compiled anew for each virtual environment
    and between cargo and maturin. Windows (import library) and free-threaded Python (no stable ABI
    yet) need what maturin finds out from the interpreter.
    """
    if os.name == "nt" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return {}
    config = tools / "pyo3-abi3-311.txt"
    text = "implementation=CPython\nversion=3.11\ntarget_abi=CPython-abi3-3.11\nshared=true\n"
    if not config.exists() or config.read_text() != text:
        config.parent.mkdir(parents=True, exist_ok=True)
        partial = config.with_name(f".{config.name}.{os.getpid()}")
        partial.write_text(text)
        partial.replace(config)
    return {"PYO3_CONFIG_FILE": str(config), "PYO3_BUILD_EXTENSION_MODULE": "1"}


def _cpu_identity() -> str:
    if sys.platform == "darwin":
        return output(["sysctl", "-n", "machdep.cpu.brand_string"])
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    wanted = ("model name", "flags", "Features", "CPU part")
    return "\n".join(dict.fromkeys(line for line in lines if line.startswith(wanted)))
