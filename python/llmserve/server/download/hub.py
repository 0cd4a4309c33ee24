"""Finds GGUF files in repositories of Hugging Face's Hub, over its documented HTTP API."""

from __future__ import annotations

import json
import os
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from llmserve.server.download.default import PullError
from llmserve.server.download.http_failure import http_failure
from llmserve.server.download.transfer import USER_AGENT, RemoteFile
from llmserve.server.model_files import is_later_part, parts

ENDPOINT = "https://huggingface.co"

_TIMEOUT_S = 60.0
_REPOSITORY = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
_SUFFIX = ".gguf"
_PREFERRED = ("Q4_K_M", "Q4_0", "Q8_0")
"""The quantization that is taken if none is named: small, and nearly as good as the model itself."""
_NUM_SHOWN = 8


def files_in_repository(repository: str, wanted: str = "", revision: str = "main") -> list[RemoteFile]:
    """The files of one model in a repository; of a split model, all parts, the first one first.

    ``wanted`` is the name of a file or a quantization, such as ``Q4_K_M``. `HF_ENDPOINT` names a mirror, and
    `HF_TOKEN` is sent to it.

    Raises:
        PullError: There is no such repository or file, several files fit, or the Hub does not answer.
    """
    if not _REPOSITORY.fullmatch(repository):
        raise PullError(
            f"{repository!r} is not the name of a repository\nhint: hf:ORG/REPO, as the page's address has it"
        )
    endpoint = (os.environ.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")
    token = os.environ.get("HF_TOKEN", "")
    quoted = urllib.parse.quote(revision, safe="")
    listing = _read_json(f"{endpoint}/api/models/{repository}/revision/{quoted}?blobs=true", token)
    files = _files_of(listing)
    first = _choose(repository, sorted(files), wanted)
    paths = [str(PurePosixPath(first).with_name(part.name)) for part in parts(Path(first))]
    if missing := [path for path in paths if path not in files]:
        raise PullError(f"{repository} lacks a part of the model: {missing[0]}")
    # By the commit, so that all parts are of one revision.
    commit = urllib.parse.quote(str(listing.get("sha") or revision), safe="")
    organization = repository.partition("/")[0]
    return [
        RemoteFile(
            url=f"{endpoint}/{repository}/resolve/{commit}/{urllib.parse.quote(path)}",
            name=f"{organization}/{PurePosixPath(path).name}",
            sha256=files[path].sha256,
            token=token,
            size_bytes=files[path].size_bytes,
        )
        for path in paths
    ]


def _read_json(url: str, token: str) -> Mapping[str, Any]:
    request = urllib.request.Request(url, headers={"User-Agent": USER_AGENT})  # noqa: S310
    if token:
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310
            read = json.load(answer)
    except urllib.error.URLError as error:
        raise http_failure(url, error) from error
    except (ValueError, OSError) as error:
        raise PullError(f"the answer of {url} cannot be read: {error}") from error
    return read if isinstance(read, Mapping) else {}


class _Listed(NamedTuple):
    """What a listing says of a file, as far as it does."""

    sha256: str
    size_bytes: int


def _files_of(listing: Mapping[str, Any]) -> dict[str, _Listed]:
    """The GGUF files of a repository."""
    found: dict[str, _Listed] = {}
    for item in listing.get("siblings") or ():
        path = str(item.get("rfilename", ""))
        if path.lower().endswith(_SUFFIX) and not PurePosixPath(path).name.startswith("."):
            sha256 = (item.get("lfs") or {}).get("sha256")
            found[path] = _Listed(str(sha256 or ""), int(item.get("size") or 0))
    return found


def _choose(repository: str, paths: Sequence[str], wanted: str) -> str:
    models = [path for path in paths if _is_first_file(PurePosixPath(path).name)]
    if not models:
        raise PullError(
            f"{repository} has no GGUF file\nhint: look for a repository with -GGUF at the end of its name"
        )
    found = _fitting(models, wanted)
    if len(found) == 1:
        return found[0]
    shown = ", ".join((found or models)[:_NUM_SHOWN]) + (", …" if len(found or models) > _NUM_SHOWN else "")
    if found:
        raise PullError(
            f"{repository} has several models: {shown}\nhint: name one: hf:{repository}:{found[0]}"
        )
    raise PullError(f"{repository} has no file {wanted}\nhint: there are {shown}")


def _is_first_file(name: str) -> bool:
    return not is_later_part(name) and not name.lower().startswith("mmproj")


def _fitting(models: Sequence[str], wanted: str) -> list[str]:
    if wanted:
        named = [path for path in models if wanted in (path, PurePosixPath(path).name)]
        return named or [path for path in models if _has_quantization(path, wanted)]
    for quantization in _PREFERRED if len(models) > 1 else ():
        if len(found := [path for path in models if _has_quantization(path, quantization)]) == 1:
            return found
    return list(models)


def _has_quantization(path: str, quantization: str) -> bool:
    pattern = rf"(?<![a-z0-9]){re.escape(quantization)}(?![a-z0-9_])"
    return re.search(pattern, path, re.IGNORECASE) is not None
