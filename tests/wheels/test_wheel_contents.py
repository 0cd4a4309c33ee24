"""What the wheel has in it, and on which systems it says it runs."""

from __future__ import annotations

import platform
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.wheel

MAX_BYTES = 30_000_000
# Of the C library and GCC's, which `manylinux` promises; OpenMP's and the C++ library are not among them.
SYSTEM_LIBRARIES = re.compile(r"lib(c|m|dl|rt|pthread|gcc_s)\.so\.\d|ld-linux-.*")
VARIANTS = {
    "x86_64": {"x64", "sandybridge", "haswell", "skylakex", "icelake", "zen4"},
    "aarch64": {"armv8.0_1", "armv8.2_2", "armv8.6_1"},
}[platform.machine()]


def test_size(wheel: Path) -> None:
    assert wheel.stat().st_size <= MAX_BYTES


def test_auditwheel_confirms_the_tag(wheel: Path, tools: Path) -> None:
    tag = wheel.stem.split("-")[-1]
    shown = subprocess.run(
        [str(tools / "auditwheel"), "show", str(wheel)], check=True, capture_output=True, text=True
    ).stdout
    tags = re.findall(r'"?(manylinux_\d+_\d+_\w+)"?', " ".join(shown.split()))
    assert tag.startswith("manylinux_2_")
    # The first is the oldest that the symbols allow.
    assert int(tags[0].split("_")[2]) <= int(tag.split("_")[2]), shown


def test_one_extension_for_all_pythons(wheel: Path) -> None:
    assert wheel.stem.split("-")[2:4] == ["cp311", "abi3"]


def test_code_for_several_cpus(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    found = re.findall(r"llmserve/_native/libggml-cpu-([\w.]+)\.so", " ".join(names))
    assert set(found) == VARIANTS


@pytest.fixture(scope="module")
def binaries(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("wheel")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    found = list(folder.rglob("*.so*"))
    assert len(found) > len(VARIANTS)
    return found


def _readelf(option: str, binary: Path) -> str:
    command = ["readelf", "--wide", option, str(binary)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_libraries_need_the_systems_own_only(binaries: list[Path]) -> None:
    carried = {path.name for path in binaries}
    for binary in binaries:
        needed = re.findall(r"\(NEEDED\).*\[(.+)\]", _readelf("--dynamic", binary))
        assert [name for name in needed if name not in carried and not SYSTEM_LIBRARIES.fullmatch(name)] == []


def test_every_symbol_is_in_the_wheel_or_of_an_old_version(binaries: list[Path]) -> None:
    """A symbol of the C library that its stubs lack would be asked for without a version."""
    undefined: set[str] = set()
    defined: set[str] = set()
    for binary in binaries:
        for line in _readelf("--dyn-syms", binary).splitlines():
            symbol = re.match(r" +\d+: \w+ +\w+ \w+ +GLOBAL +\w+ +(\w+) ([^ @]+)(@?)", line)
            if symbol and not symbol[3]:
                (undefined if symbol[1] == "UND" else defined).add(symbol[2])
    assert {name for name in undefined - defined if not re.match("_?Py", name)} == set()
