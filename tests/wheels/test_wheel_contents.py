"""What the wheel has in it, and on which systems it says it runs."""

from __future__ import annotations

import re
import subprocess
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.wheel

MAX_BYTES = 30_000_000
# Of the C library and GCC's, which `manylinux` promises; OpenMP's and the C++ library are not among them.
SYSTEM_LIBRARIES = re.compile(r"lib(c|m|dl|rt|pthread|gcc_s)\.so\.\d|ld-linux-.*")
VARIANTS = {"x64", "sandybridge", "haswell", "skylakex", "icelake", "zen4"}


def test_size(wheel: Path) -> None:
    assert wheel.stat().st_size <= MAX_BYTES


def test_auditwheel_confirms_the_tag(wheel: Path, tools: Path) -> None:
    platform = wheel.stem.split("-")[-1]
    shown = subprocess.run(
        [str(tools / "auditwheel"), "show", str(wheel)], check=True, capture_output=True, text=True
    ).stdout
    tags = re.findall(r'"?(manylinux_\d+_\d+_\w+)"?', " ".join(shown.split()))
    assert platform.startswith("manylinux_2_")
    # The first is the oldest that the symbols allow.
    assert int(tags[0].split("_")[2]) <= int(platform.split("_")[2]), shown


def test_one_extension_for_all_pythons(wheel: Path) -> None:
    assert wheel.stem.split("-")[2:4] == ["cp311", "abi3"]


def test_code_for_several_cpus(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    found = re.findall(r"llmserve/_native/libllmserve-ggml-cpu-(\w+)\.so", " ".join(names))
    assert set(found) == VARIANTS


def test_libraries_need_the_systems_own_only(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    binaries = list(tmp_path.rglob("*.so*"))
    carried = {path.name for path in binaries}
    assert len(binaries) > len(VARIANTS)
    for binary in binaries:
        dynamic = subprocess.run(
            ["readelf", "--wide", "--dynamic", str(binary)], check=True, capture_output=True, text=True
        ).stdout
        needed = re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic)
        assert [name for name in needed if name not in carried and not SYSTEM_LIBRARIES.fullmatch(name)] == []
