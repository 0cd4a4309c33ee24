"""Compiles ggml's CUDA module with the compiler from PyPI, and adds it to a wheel.

``python scripts/cuda_module.py dist/llmserve-*.whl`` writes the wheel with the module to ``dist/cuda``. Needs
neither a GPU nor NVIDIA's toolkit. It takes about an hour of a core for one architecture; stopped and called
again, it goes on where it was. Users of the wheel need the driver, and the packages ``nvidia-cuda-runtime``
and ``nvidia-cublas``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "build_support"))

from native import cache_dir  # noqa: E402
from portable.cuda_toolkit import cuda_toolkit  # noqa: E402
from portable.environment import portable_environment  # noqa: E402
from portable.pack import pack  # noqa: E402
from toolchain import BuildSetupError, output  # noqa: E402

TARGET = "x86_64-unknown-linux-gnu"
MODULE = "ggml-cuda"
# Of Hopper. `90-real` has no code that a driver would compile for newer GPUs, and `90` has it too.
ARCHITECTURE = "90-real"
FLAGS = {
    "CMAKE_BUILD_TYPE": "Release",
    # The module has the runtime path that it is installed with.
    "CMAKE_BUILD_WITH_INSTALL_RPATH": "ON",
    "BUILD_SHARED_LIBS": "ON",
    "GGML_BACKEND_DL": "ON",
    "GGML_CCACHE": "OFF",
    "GGML_CUDA": "ON",
    "GGML_CUDA_NCCL": "OFF",
    "GGML_NATIVE": "OFF",
    "GGML_OPENMP": "OFF",
    "LLAMA_CURL": "OFF",
} | {f"LLAMA_BUILD_{part}": "OFF" for part in ("APP", "COMMON", "EXAMPLES", "SERVER", "TESTS", "TOOLS")}


def main() -> int:
    """Builds the module, and packs it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("wheel", type=Path, help="llmserve's wheel, as `make wheel` builds it")
    parser.add_argument(
        "--architectures", default=ARCHITECTURE, help="CMAKE_CUDA_ARCHITECTURES (%(default)s)"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="(default: one for each core)")
    arguments = parser.parse_args()
    try:
        module = _build(arguments.architectures, arguments.jobs)
    except BuildSetupError as error:
        sys.exit(f"llmserve: {error}")
    platform = arguments.wheel.stem.rpartition("-")[2]
    packed = pack(arguments.wheel, [module], platform, ROOT / "dist" / "cuda")
    print(f"{packed.relative_to(ROOT)}: {packed.stat().st_size / 1e6:.1f} MB")
    return 0


def _build(architectures: str, jobs: int) -> Path:
    env = {**os.environ, **portable_environment(TARGET, ("portable", "cuda"))}
    folder = cache_dir() / "cuda-module" / architectures.replace(";", "+")
    subprocess.run(configuration(_source(), folder, cuda_toolkit(), architectures, env), check=True, env=env)
    build = ["cmake", "--build", str(folder), "--target", MODULE, "--parallel", str(jobs)]
    subprocess.run(build, check=True, env=env)
    return folder / "bin" / f"lib{MODULE}.so"


def configuration(
    source: Path, folder: Path, toolkit: Path, architectures: str, env: dict[str, str]
) -> list[str]:
    """CMake's command, with the variables that it would not take from the environment."""
    flags = FLAGS | {
        "CMAKE_CUDA_ARCHITECTURES": architectures,
        "CMAKE_CUDA_COMPILER": str(toolkit / "bin" / "nvcc"),
        "CUDAToolkit_ROOT": str(toolkit),
        "CMAKE_PROJECT_INCLUDE": env["CMAKE_PROJECT_INCLUDE"],
        "CMAKE_INSTALL_RPATH": env["CMAKE_INSTALL_RPATH"],
    }
    defined = [f"-D{name}={value}" for name, value in flags.items()]
    return ["cmake", "-S", str(source), "-B", str(folder), *defined]


def _source() -> Path:
    """llama.cpp, as the sys crate has it."""
    metadata = json.loads(output(["cargo", "metadata", "--format-version=1", "--locked"]))
    [manifest] = [
        package["manifest_path"] for package in metadata["packages"] if package["name"] == "llama-cpp-sys-2"
    ]
    return Path(manifest).parent / "llama.cpp"


if __name__ == "__main__":
    sys.exit(main())
