"""What tests know of a server, wherever it runs."""

from __future__ import annotations

from pathlib import Path

from serving.client import get, wait_until

# One thread: two that wait for each other are slow where the tests of others run beside them.
SMALL = {"LLMSERVE_CONTEXT_LENGTH": "2048", "LLMSERVE_MAX_SEQUENCES": "4", "LLMSERVE_THREADS": "1"}


class Server:
    """A server that listens on loopback; `log` is what it has written so far."""

    def __init__(self, port: int, log_file: Path) -> None:
        self.port = port
        self.folder = log_file.parent
        self._log_file = log_file

    @property
    def log(self) -> str:
        return self._log_file.read_text()

    def wait_for_log(self, *texts: str) -> None:
        """Waits until the log has all of `texts`: a server may answer before it has written its lines."""
        wait_until(lambda: all(text in self.log for text in texts))

    def states(self) -> list[str]:
        return [model["state"] for model in get(self.port, "/health").json["models"]]

    def wait_until_ready(self) -> None:
        wait_until(lambda: "ready" in self.states())
