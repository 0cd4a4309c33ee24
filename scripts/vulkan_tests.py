"""Builds the engine with the Vulkan backend, and runs its tests on Mesa's software driver.

The checkout's own extension module stays: the package is tested from a copy. A first build takes minutes,
most of them for the shaders.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "build_support"))

from native_build import build  # noqa: E402
from run import build_environment  # noqa: E402
from toolchain import BuildSetupError  # noqa: E402

FEATURES = ("vulkan",)
DRIVERS = Path("/usr/share/vulkan/icd.d")


def main() -> int:
    """Builds and tests."""
    drivers = list(DRIVERS.glob("lvp_icd*.json"))
    if not drivers:
        sys.exit("llmserve: there is no software driver for Vulkan.\nhint: scripts/ensure-system vulkan")
    try:
        env = build_environment(FEATURES)
    except BuildSetupError as error:
        sys.exit(f"llmserve: {error}")
    if (status := build(FEATURES, env)) != 0:
        return status
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, "llmserve")
        ignored = shutil.ignore_patterns("_core*.so", "__pycache__")
        shutil.copytree(ROOT / "python" / "llmserve", package, ignore=ignored)
        shutil.copy2(Path(env["CARGO_TARGET_DIR"], "release", "lib_core.so"), package / "_core.abi3.so")
        env["PYTHONPATH"] = folder
        # ggml passes over devices that are processors, unless they are named.
        env |= {"VK_DRIVER_FILES": str(drivers[0]), "GGML_VK_VISIBLE_DEVICES": "0"}
        tests = [sys.executable, "-m", "pytest", "-m", "vulkan", "tests/test_vulkan.py", *sys.argv[1:]]
        return subprocess.run(tests, cwd=ROOT, env=env).returncode


if __name__ == "__main__":
    sys.exit(main())
