"""The files of the pages over HTTP: types, policy, caching, and who gets the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import llmserve.server.page
from serving import ServerProcess, get

pytestmark = pytest.mark.model

FOLDER = Path(llmserve.server.page.__file__).parent / "static"
FILES = sorted(path.name for path in FOLDER.iterdir())
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


def test_browsers_get_the_page(server: ServerProcess) -> None:
    answer = get(server.port, "/", headers={"Accept": BROWSER})
    assert answer.status == 200
    assert answer.header("content-type") == TYPES["html"]
    assert answer.header("vary") == "Accept"
    assert answer.body == (FOLDER / "index.html").read_bytes()


@pytest.mark.parametrize("accept", ["application/json", "application/json, text/*;q=0.5"])
def test_programs_that_ask_for_json_get_the_index(server: ServerProcess, accept: str) -> None:
    answer = get(server.port, "/", headers={"Accept": accept})
    assert answer.json["name"] == "llmserve"
    assert answer.header("vary") == "Accept"


@pytest.mark.parametrize("accept", [None, "*/*"])
def test_other_programs_get_what_ollamas_clients_look_for(server: ServerProcess, accept: str | None) -> None:
    headers = {} if accept is None else {"Accept": accept}
    answer = get(server.port, "/", headers=headers)
    assert answer.text == "Ollama is running"
    assert answer.header("vary") == "Accept"
    head = get(server.port, "/", method="HEAD", headers=headers)
    assert (head.status, head.body) == (200, b"")


@pytest.mark.parametrize("name", FILES)
def test_every_file_has_its_type_and_policy(server: ServerProcess, name: str) -> None:
    answer = get(server.port, f"/page/{name}")
    assert answer.status == 200
    assert answer.header("content-type") == TYPES[name.rpartition(".")[2]]
    assert answer.header("x-content-type-options") == "nosniff"
    policy = answer.header("content-security-policy") or ""
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert get(server.port, f"/page/{name}", method="HEAD").body == b""


@pytest.mark.parametrize("tag", ["{}", "W/{}", '"other", {}'])
def test_a_file_that_the_browser_has_is_not_sent_again(server: ServerProcess, tag: str) -> None:
    etag = get(server.port, "/page/app.js").header("etag") or ""
    answer = get(server.port, "/page/app.js", headers={"If-None-Match": tag.format(etag)})
    assert (answer.status, answer.body, answer.header("etag")) == (304, b"", etag)
    assert answer.header("content-length") is None
    assert get(server.port, "/page/app.js", headers={"If-None-Match": '"other"'}).status == 200


@pytest.mark.parametrize("name", ["none.js", "", "..%2Froutes.py", "../routes.py", "a/app.js"])
def test_other_files_are_not_served(server: ServerProcess, name: str) -> None:
    assert get(server.port, f"/page/{name}").status == 404


def test_files_name_only_files_that_are_there_and_nothing_elsewhere() -> None:
    for path in FOLDER.iterdir():
        text = path.read_text()
        used = re.findall(r'(?:src|href)="(?:page/)([^"]+)"', text) + re.findall(r'from "\./([^"]+)"', text)
        assert set(used) <= set(FILES), path
        # The name of a namespace is no address.
        assert "://" not in text.replace("http://www.w3.org/2000/svg", "").replace("https?:\\/\\/", ""), path


def test_every_file_is_used() -> None:
    texts = {path.name: path.read_text() for path in FOLDER.iterdir()}
    for name in set(FILES) - {"index.html", "docs.html"}:
        assert any(name in text for other, text in texts.items() if other != name), name
