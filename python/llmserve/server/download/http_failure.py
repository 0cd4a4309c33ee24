"""Why a download failed, in words and with what to do."""

from __future__ import annotations

import errno
import urllib.error
from collections.abc import Mapping
from pathlib import Path

from llmserve.server.download.default import PullError

_HINTS: Mapping[int, str] = {
    401: "the file needs a token: set HF_TOKEN to one of huggingface.co/settings/tokens",
    403: "accept the model's terms on its page, and set HF_TOKEN to a token of that account",
    404: "check the name; a private repository needs HF_TOKEN",
    429: "the server asks to wait: try again in some minutes",
}


def http_failure(url: str, error: urllib.error.URLError) -> PullError:
    """The error to raise when a URL could not be opened."""
    if isinstance(error, urllib.error.HTTPError):
        error.close()
        hint = _HINTS.get(error.code, "")
        text = f"{url} cannot be downloaded: the server answers {error.code} {error.reason}"
        return PullError(f"{text}\nhint: {hint}" if hint else text)
    reason = getattr(error.reason, "strerror", None) or error.reason
    return PullError(
        f"{url} cannot be downloaded: {reason}\n"
        "hint: check the connection; a proxy is set by HTTPS_PROXY, a mirror of Hugging Face by HF_ENDPOINT"
    )


def os_failure(error: OSError, folder: Path) -> PullError:
    """The error to raise when a file could not be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        text = f"there is not enough space in {folder}"
    else:
        text = f"cannot write to {folder}: {error.strerror or error}"
    return PullError(f"{text}\nhint: LLMSERVE_CACHE_DIR names another folder")
