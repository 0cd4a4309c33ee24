"""A folder to link against, with nothing in it that a system of 2018 lacks.

Programs linked on a new system ask for its C library's symbols by their newest versions and do not start on
an older one. Here are stubs of the C library that have the versions of one release only, which the system's
own library still provides and lists. What is newer and called all the same is in `newer_glibc.c`. The C++
library is linked statically, and OpenMP's runtime is left out, since the engine has its own.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# manylinux_2_28: Debian 10, Ubuntu 18.10, RHEL 8.
RELEASE = (2, 28)
# Symbols whose default version is of this release were in other libraries before.
MERGED = (2, 34)
OTHERS = {"dl": "libdl.so.2", "pthread_": "libpthread.so.0", "sem_": "libpthread.so.0"}
ELSEWHERE = "librt.so.1"

_SYMBOL = re.compile(
    r"^ +\d+: [0-9a-f]+ +(?P<size>\d+) (?P<type>\w+) +(?:GLOBAL|WEAK) +DEFAULT +\d+ "
    r"(?P<name>\w+)(?P<mark>@@?)GLIBC_(?P<version>[\d.]+)"
)

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Symbol:
    """A function or variable of a library, in one version."""

    name: str
    version: Version
    is_function: bool
    size: int


def make_link_folder(folder: Path, compiler: list[str], wrappers: Path) -> None:
    """Fill `folder` with what replaces the C and C++ libraries of `compiler`'s system."""
    folder.mkdir(parents=True, exist_ok=True)
    for soname, symbols in _libraries(compiler).items():
        _write_stub(folder / soname, symbols, compiler)
    wrapper = folder / "newer_glibc.o"
    subprocess.run([*compiler, "-xc", "-O2", "-fPIC", "-c", str(wrappers), "-o", str(wrapper)], check=True)
    subprocess.run(["ar", "rcs", str(wrapper.with_suffix(".a")), str(wrapper)], check=True)
    own_script = _file_of(compiler, "libc.so").read_text()
    loader = " ".join(re.findall(r"\S+/ld-linux\S+", own_script))
    nonshared = _file_of(compiler, "libc_nonshared.a")
    scripts = {
        "libc.so": f"GROUP(libc.so.6 newer_glibc.a {nonshared} "
        f"AS_NEEDED({' '.join(sorted({*OTHERS.values(), ELSEWHERE}))} {loader}))",
        "libm.so": "INPUT(libm.so.6)",
        "libpthread.so": "INPUT(libpthread.so.0)",
        "libdl.so": "INPUT(libdl.so.2)",
        "librt.so": "INPUT(librt.so.1)",
        "libutil.so": "",
        "libstdc++.so": f"INPUT({_file_of(compiler, 'libstdc++.a')})",
        "libgomp.so": "",
    }
    for name, script in scripts.items():
        (folder / name).write_text(f"/* GNU ld script */\n{script}\n")


def _libraries(compiler: list[str]) -> dict[str, list[Symbol]]:
    """The symbols of each library as it was in `RELEASE`."""
    libraries: dict[str, list[Symbol]] = {"libc.so.6": [], "libm.so.6": [], ELSEWHERE: []}
    libraries |= {soname: [] for soname in OTHERS.values()}
    libraries["libm.so.6"] = [symbol for symbol, _ in _old_symbols(_file_of(compiler, "libm.so.6"))]
    for symbol, is_merged in _old_symbols(_file_of(compiler, "libc.so.6")):
        home = "libc.so.6"
        if is_merged:
            home = next(
                (so for start, so in OTHERS.items() if symbol.name.lstrip("_").startswith(start)), ELSEWHERE
            )
        libraries[home].append(symbol)
    return libraries


def _old_symbols(library: Path) -> Iterator[tuple[Symbol, bool]]:
    """Each symbol's newest version in `RELEASE`, and whether it has come from another library since."""
    listing = subprocess.run(
        ["readelf", "--wide", "--dyn-syms", str(library)], check=True, capture_output=True, text=True
    ).stdout
    newest: dict[str, Symbol] = {}
    merged = set()
    for found in filter(None, map(_SYMBOL.match, listing.splitlines())):
        version = tuple(map(int, found["version"].split(".")))
        name = found["name"]
        if found["mark"] == "@@" and version == MERGED:
            merged.add(name)
        if version > RELEASE or (name in newest and newest[name].version > version):
            continue
        newest[name] = Symbol(name, version, found["type"] not in ("OBJECT", "TLS"), int(found["size"]))
    return ((symbol, name in merged) for name, symbol in newest.items())


def _write_stub(path: Path, symbols: list[Symbol], compiler: list[str]) -> None:
    lines = []
    for index, symbol in enumerate(symbols):
        version = ".".join(map(str, symbol.version))
        kind, section = ("function", ".text") if symbol.is_function else ("object", ".bss")
        lines += [
            f".section {section}",
            f".globl stub_{index}",
            f".type stub_{index}, %{kind}",
            f".symver stub_{index}, {symbol.name}@@GLIBC_{version}, remove",
            f".size stub_{index}, {symbol.size}",
            f"stub_{index}: .skip {max(symbol.size, 1) if not symbol.is_function else 1}",
        ]
    versions = sorted({symbol.version for symbol in symbols})
    nodes = "\n".join(f"GLIBC_{'.'.join(map(str, version))} {{ }};" for version in versions)
    source, script = path.with_suffix(".s"), path.with_suffix(".map")
    source.write_text("\n".join([*lines, '.section .note.GNU-stack,"",%progbits', ""]))
    script.write_text(nodes + "\n")
    command = [*compiler, "-shared", "-nostdlib", f"-Wl,-soname,{path.name}", str(source), "-o", str(path)]
    subprocess.run([*command, f"-Wl,--version-script={script}"] if versions else command, check=True)


def _file_of(compiler: list[str], name: str) -> Path:
    command = [*compiler, f"-print-file-name={name}"]
    return Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()).resolve()
