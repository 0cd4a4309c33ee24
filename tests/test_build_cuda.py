"""What `scripts/cuda_module.py` builds with, and what stands for CUDA's driver in the module."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path

import pytest

from portable.cuda_toolkit import complete
from toolchain import ROOT, cxx_command

DRIVER = ROOT / "build_support" / "portable" / "cuda_driver.c"
STUB_LIBRARY = 34
# The types and names that the calls need; `cuda.h` gives some functions a version, as here `cuMemMap`.
CUDA_H = """
#include <stddef.h>
#define CUDAAPI
typedef int CUresult, CUdevice, CUdevice_attribute, CUmemAllocationGranularity_flags;
typedef unsigned long long CUdeviceptr, CUmemGenericAllocationHandle;
typedef struct { int x; } CUmemAllocationProp, CUmemAccessDesc;
#define CUDA_ERROR_STUB_LIBRARY 34
#define cuMemMap cuMemMap_v2
"""
PROGRAM = """
#include <cuda.h>
#include <stdio.h>
CUresult cuDeviceGet(CUdevice *, int);
CUresult cuMemMap(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long);
int main(void) {
    CUdevice device = -1;
    int got = cuDeviceGet(&device, 5);
    printf("%d %d %d\\n", got, device, cuMemMap(1, 2, 3, 4, 5));
    return 0;
}
"""
LIBRARY = """
int cuDeviceGet(int * device, int index) { *device = index + 1; return 0; }
int cuMemMap(void) { return 99; }
typedef unsigned long long u64;
int cuMemMap_v2(u64 a, unsigned long b, unsigned long c, u64 d, u64 e) {
    return (int) (10000 * a + 1000 * b + 100 * c + 10 * d + e);
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("driver")
    (folder / "cuda.h").write_text(CUDA_H)
    (folder / "program.c").write_text(PROGRAM)
    (folder / "library.c").write_text(LIBRARY)
    (folder / "lib").mkdir()
    compiler = [*cxx_command(), "-xc", "-Wall", "-Werror", f"-I{folder}"]
    for command in (
        [*compiler, "program.c", str(DRIVER), "-o", "program", "-ldl"],
        [*compiler, "-shared", "-fPIC", "library.c", "-o", "lib/libcuda.so.1"],
    ):
        subprocess.run(command, cwd=folder, check=True)
    return folder / "program"


def _printed(program: Path, folder: Path) -> str:
    env = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
    return subprocess.run([program], env=env, check=True, capture_output=True, text=True).stdout


def test_without_a_driver_its_calls_fail(program: Path, tmp_path: Path) -> None:
    assert _printed(program, tmp_path) == f"{STUB_LIBRARY} -1 {STUB_LIBRARY}\n"


def test_calls_reach_the_driver_by_their_versioned_names(program: Path) -> None:
    assert _printed(program, program.parent / "lib") == "0 6 12345\n"


def test_libraries_of_packages_get_the_names_that_linkers_look_for(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    for name in ("libcudart.so.13", "libcublasLt.so.13", "libcudart_static.a"):
        (tmp_path / "lib" / name).write_text(name)
    complete(tmp_path)
    complete(tmp_path)
    assert (tmp_path / "lib" / "libcudart.so").read_text() == "libcudart.so.13"
    assert sorted(path.name for path in (tmp_path / "lib").iterdir()) == [
        "libcublasLt.so",
        "libcublasLt.so.13",
        "libcudart.so",
        "libcudart.so.13",
        "libcudart_static.a",
    ]


def test_the_module_is_configured_like_the_wheel() -> None:
    path = ROOT / "scripts" / "cuda_module.py"
    spec = importlib.util.spec_from_file_location("cuda_module", path)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    env = {"CMAKE_PROJECT_INCLUDE": "/p/ggml.cmake", "CMAKE_INSTALL_RPATH": "$ORIGIN", "CMAKE_OTHER": "1"}
    command = script.configuration(Path("/llama.cpp"), Path("/out"), Path("/toolkit"), "90-real", env)
    assert command[:5] == ["cmake", "-S", "/llama.cpp", "-B", "/out"]
    assert {
        "-DCMAKE_CUDA_ARCHITECTURES=90-real",
        "-DCMAKE_CUDA_COMPILER=/toolkit/bin/nvcc",
        "-DCMAKE_PROJECT_INCLUDE=/p/ggml.cmake",
        "-DCMAKE_INSTALL_RPATH=$ORIGIN",
        "-DGGML_BACKEND_DL=ON",
    } <= set(command)
