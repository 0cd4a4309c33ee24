"""What can be downloaded, as people name it: a repository of Hugging Face's Hub, or a URL."""

from __future__ import annotations

import re
import urllib.parse
from dataclasses import replace
from pathlib import PurePosixPath

from llmserve.server.download.default import PullError
from llmserve.server.download.hub import files_in_repository
from llmserve.server.download.transfer import RemoteFile

_HUB = "hf:"
_HUB_PAGE = re.compile(
    r"https://(?:huggingface\.co|hf\.co)/(?P<repository>[^/]+/[^/]+)"
    r"/(?:blob|resolve)/(?P<revision>[^/]+)/(?P<path>[^?]+)(?:\?.*)?"
)
_SUFFIX = ".gguf"
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")


def files_of(what: str, *, sha256: str = "", revision: str = "main") -> list[RemoteFile]:
    """The files to download for a name: ``hf:ORG/REPO[:FILE or QUANTIZATION]`` or a URL.

    ``sha256`` is that of the file, in hex; ``revision`` is a branch, tag or commit of the repository.

    Raises:
        PullError: The name is of another form, or there is no such model.
    """
    if sha256 and not _SHA256.fullmatch(sha256):
        raise PullError(f"a SHA-256 has 64 hexadecimal digits, got {sha256!r}")
    files = _found(what, revision)
    if not sha256:
        return files
    if len(files) > 1:
        raise PullError(f"one SHA-256 cannot be that of {len(files)} files")
    return [replace(files[0], sha256=sha256.lower())]


def _found(what: str, revision: str) -> list[RemoteFile]:
    if page := _HUB_PAGE.fullmatch(what):
        path = urllib.parse.unquote(page["path"])
        return files_in_repository(page["repository"], path, urllib.parse.unquote(page["revision"]))
    if what.startswith(_HUB):
        repository, _, wanted = what.removeprefix(_HUB).partition(":")
        return files_in_repository(repository, wanted, revision)
    if what.startswith(("https://", "http://")):
        return [RemoteFile(what, _name_in(what))]
    hint = f"a model of Hugging Face: hf:{what}" if what.count("/") == 1 else "hf:ORG/REPO or a URL"
    raise PullError(f"{what!r} does not say where to download a model\nhint: {hint}")


def _name_in(url: str) -> str:
    name = PurePosixPath(urllib.parse.unquote(urllib.parse.urlsplit(url).path)).name
    if not name.lower().endswith(_SUFFIX) or name.startswith("."):
        raise PullError(f"{url} is not the URL of a file NAME.gguf")
    return name
