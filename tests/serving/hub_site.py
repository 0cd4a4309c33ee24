"""A stand-in of the Hub's HTTP API, which also breaks off, redirects and changes."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CONTENT = b"GGUF" + os.urandom(300_000)
REPOSITORY = "org/Tiny-GGUF"


@dataclass
class Site:
    """What the server has, how it behaves, and what it was asked."""

    files: dict[str, bytes] = field(default_factory=dict)
    api: dict[str, Any] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    break_after: list[int] = field(default_factory=list)
    """Bytes after which the next answers break off."""
    seen: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    url: str = ""

    def ranges(self) -> list[str | None]:
        return [headers.get("Range") for method, _, headers in self.seen if method == "GET"]

    def add_repository(self, *paths: str, sha256: str | None = None, content: bytes = CONTENT) -> None:
        lfs = {"sha256": sha256 or hashlib.sha256(content).hexdigest()}
        siblings = [{"rfilename": path, "size": len(content), "lfs": lfs} for path in paths]
        self.api[f"/api/models/{REPOSITORY}/revision/main"] = {"sha": "c0ffee", "siblings": siblings}
        for path in paths:
            self.files[f"/{REPOSITORY}/resolve/c0ffee/{path}"] = content


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    site: Site

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        site = self.site
        path = self.path.partition("?")[0]
        site.seen.append((self.command, self.path, dict(self.headers)))
        if (status := site.statuses.get(path)) is not None:
            self.answer(status, b"")
        elif (target := site.redirects.get(path)) is not None:
            self.answer(302, b"", {"Location": target})
        elif path in site.api:
            self.answer(200, json.dumps(site.api[path]).encode())
        elif (content := site.files.get(path)) is not None:
            self.send_file(content)
        else:
            self.answer(404, b"")

    def send_file(self, content: bytes) -> None:
        etag = f'"{hashlib.sha256(content).hexdigest()[:8]}"'
        headers = {"ETag": etag, **self.site.headers}
        begin = 0
        if (given := self.headers.get("Range")) and self.headers.get("If-Range") in (None, etag):
            begin = int(given.removeprefix("bytes=").rstrip("-"))
            if begin >= len(content):
                self.answer(416, b"")
                return
            headers["Content-Range"] = f"bytes {begin}-{len(content) - 1}/{len(content)}"
        self.answer(206 if begin else 200, content[begin:], headers)

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if body and self.site.break_after:
            self.wfile.write(body[: self.site.break_after.pop(0)])
            self.close_connection = True
            return
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def hub_site() -> Iterator[Site]:
    """The stand-in, with nothing on it yet."""
    made = Site()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("SiteHandler", (Handler,), {"site": made}))
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield made
    server.shutdown()
    thread.join()
    server.server_close()
