"""Puts libraries into a wheel and gives it the tag of the systems that it runs on."""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from portable.environment import LIBRARIES

PACKAGE = "llmserve"


def pack(wheel: Path, libraries: list[Path], platform: str, out: Path) -> Path:
    """Write `wheel` with these libraries and this platform's tag into `out`; returns the new file."""
    name, version, python, abi, own_platform = wheel.stem.split("-")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(root)
        target = root / PACKAGE / LIBRARIES
        target.mkdir()
        for library in libraries:
            shutil.copy2(library, target)
        for binary in root.rglob("*.so*"):
            subprocess.run(["strip", "--strip-unneeded", str(binary)], check=True)
        info = root / f"{name}-{version}.dist-info"
        text = (info / "WHEEL").read_text()
        (info / "WHEEL").write_text(text.replace(own_platform, platform))
        (info / "RECORD").write_text("".join(_record(root, info / "RECORD")))
        packed = out / f"{name}-{version}-{python}-{abi}-{platform}.whl"
        out.mkdir(parents=True, exist_ok=True)
        _write(packed, root)
    return packed


def _record(root: Path, record: Path) -> Iterator[str]:
    for path in _files(root):
        name = path.relative_to(root).as_posix()
        if path == record:
            yield f"{name},,\n"
            continue
        digest = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).decode().rstrip("=")
        yield f"{name},sha256={digest},{path.stat().st_size}\n"


def _write(packed: Path, root: Path) -> None:
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in _files(root):
            archive.write(path, path.relative_to(root))


def _files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())
