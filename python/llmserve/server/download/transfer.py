"""Downloads a file over HTTP. A transfer that broke off goes on where it ended, also in another process.

The file appears under its name whole and checked, or not at all.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import email.message
import hashlib
import http.client
import os
import re
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from llmserve import __version__
from llmserve.server.download.default import PullError
from llmserve.server.download.files import CHUNK, sha256_of, working_in
from llmserve.server.download.http_failure import http_failure, os_failure

USER_AGENT = f"llmserve/{__version__}"

_TIMEOUT_S = 60.0
_PAUSE_S = 1.0
_MAX_FAILURES = 5
"""Failures in a row, without a byte between them, after which a transfer is given up."""
_BROKEN = (ConnectionError, TimeoutError, http.client.HTTPException)
_MAGIC = b"GGUF"
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")
_RANGE_NOT_SATISFIABLE = 416


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file to download; ``name`` is where it goes, below the folder of models."""

    url: str
    name: str
    sha256: str = ""
    """In hex; empty if it is unknown."""
    token: str = ""
    """Sent to the server of the URL, and to none that it redirects to."""
    size_bytes: int = 0
    """0 if it is unknown."""


def fetch(file: RemoteFile, folder: Path, report: Callable[[float], None]) -> Path:
    """The file below the folder, downloaded if it is not there; ``report`` gets the share that is.

    Raises:
        PullError: It cannot be downloaded or written, or it is not what it should be.
    """
    target = folder / file.name
    try:
        with working_in(folder):
            if not _is_there(target, file):
                target.parent.mkdir(exist_ok=True)
                _Transfer(file, folder, report).run(target)
    except OSError as error:
        raise os_failure(error, folder) from error
    return target


def _is_there(target: Path, file: RemoteFile) -> bool:
    if not target.is_file():
        return False
    if file.sha256:
        return sha256_of(target) == file.sha256
    length = _length_at(file.url)
    return length is None or length == target.stat().st_size


def _length_at(url: str) -> int | None:
    """The size of the file at a URL; ``None`` if it is not to be had."""
    request = urllib.request.Request(url, method="HEAD", headers={"User-Agent": USER_AGENT})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310
            length = answer.headers.get("Content-Length")
    except urllib.error.HTTPError as error:
        error.close()
        return None
    except (urllib.error.URLError, *_BROKEN):
        return None
    return None if length is None else int(length)


class _Transfer:
    def __init__(self, file: RemoteFile, folder: Path, report: Callable[[float], None]) -> None:
        self._file = file
        self._report = report
        name = f".partial-{hashlib.sha256(file.url.encode()).hexdigest()[:16]}"
        self._partial = folder / name
        # What says that the rest on the server belongs to the part that is here.
        self._validator = folder / f"{name}.etag"
        self._sha256 = file.sha256

    def run(self, target: Path) -> None:
        num_failures = 0
        while True:
            before = self._size()
            try:
                self._transfer_rest()
                break
            except _BROKEN as error:
                num_failures = 0 if self._size() > before else num_failures + 1
                if num_failures >= _MAX_FAILURES:
                    raise PullError(
                        f"{self._file.url} broke off: {str(error) or type(error).__name__}\n"
                        "hint: the same command goes on where it ended"
                    ) from error
                time.sleep(_PAUSE_S * num_failures)
        self._check()
        self._partial.replace(target)
        self._validator.unlink(missing_ok=True)

    def _size(self) -> int:
        return self._partial.stat().st_size if self._partial.exists() else 0

    def _transfer_rest(self) -> None:
        """Appends what is missing. Raises one of `_BROKEN` if the connection ends too early."""
        try:
            with contextlib.closing(self._open()) as answer:
                begin, total = _range_of(answer)
                self._keep_validator(answer.headers)
                self._refuse_if_full(total - begin if total else 0)
                self._receive(answer, begin, total)
        except urllib.error.HTTPError as error:
            if error.code != _RANGE_NOT_SATISFIABLE or not self._partial.exists():
                raise http_failure(self._file.url, error) from error
            # The part is not the beginning of what the server has.
            error.close()
            self._partial.unlink()
            raise ConnectionError("the file has changed") from error
        except urllib.error.URLError as error:
            if isinstance(error.reason, ConnectionError | TimeoutError) and self._size():
                raise error.reason from error
            raise http_failure(self._file.url, error) from error

    def _open(self) -> http.client.HTTPResponse:
        request = urllib.request.Request(self._file.url, headers={"User-Agent": USER_AGENT})  # noqa: S310
        if self._file.token:
            request.add_unredirected_header("Authorization", f"Bearer {self._file.token}")
        size = self._size()
        if size and self._validator.exists():
            request.add_header("Range", f"bytes={size}-")
            request.add_header("If-Range", self._validator.read_text())
        answer: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=_TIMEOUT_S)  # noqa: S310
        return answer

    def _keep_validator(self, headers: email.message.Message) -> None:
        validator = headers.get("ETag") or headers.get("Last-Modified") or ""
        if validator and not validator.startswith("W/"):
            self._validator.write_text(validator)
        else:
            self._validator.unlink(missing_ok=True)
        self._sha256 = self._sha256 or _announced_sha256(headers)

    def _refuse_if_full(self, needed: int) -> None:
        free = shutil.disk_usage(self._partial.parent).free
        if needed > free:
            raise PullError(
                f"{self._file.name} needs {needed / 1e9:.2f} GB, and {self._partial.parent} has "
                f"{free / 1e9:.2f} GB left\nhint: LLMSERVE_CACHE_DIR names another folder for downloads"
            )

    def _receive(self, answer: http.client.HTTPResponse, begin: int, total: int) -> None:
        done = begin
        with self._partial.open("r+b" if begin else "wb") as out:
            out.seek(begin)
            while chunk := answer.read(CHUNK):
                out.write(chunk)
                done += len(chunk)
                if total:
                    self._report(done / total)
            out.flush()
            os.fsync(out.fileno())
        if done < total:
            raise ConnectionError(f"{done} of {total} bytes came")

    def _check(self) -> None:
        """Refuses what is not the file; then nothing of it is kept."""
        with self._partial.open("rb") as file:
            is_gguf = file.read(len(_MAGIC)) == _MAGIC
        if not is_gguf:
            self._discard()
            raise PullError(
                f"what {self._file.url} gives is not a GGUF file\nhint: it may be a page about the file"
            )
        if self._sha256 and (found := sha256_of(self._partial)) != self._sha256.lower():
            self._discard()
            raise PullError(f"{self._file.name} has the SHA-256 {found}, expected {self._sha256.lower()}")

    def _discard(self) -> None:
        self._partial.unlink()
        self._validator.unlink(missing_ok=True)


def _range_of(answer: http.client.HTTPResponse) -> tuple[int, int]:
    """Where the body begins in the file, and the size of the whole; 0 if that is unknown."""
    found = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
    if answer.status == http.client.PARTIAL_CONTENT and found:
        return int(found[1]), int(found[2]) if found[2] != "*" else 0
    return 0, int(answer.headers.get("Content-Length") or 0)


def _announced_sha256(headers: email.message.Message) -> str:
    """The SHA-256 of the whole file that a server states (RFC 9530, or Artifactory's header), in hex."""
    if plain := headers.get("X-Checksum-Sha256"):
        return str(plain).strip()
    found = re.search(r"sha-256=:([A-Za-z0-9+/=]+):", headers.get("Repr-Digest", ""))
    try:
        return base64.b64decode(found[1], validate=True).hex() if found else ""
    except binascii.Error:
        return ""
