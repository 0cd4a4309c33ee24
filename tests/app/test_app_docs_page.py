"""The script of `/docs`, run against real servers."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from serving import ServerProcess, get, serve_in_process

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(shutil.which("node") is None, reason="there is no JavaScript engine"),
]

SCRIPT = Path(__file__).parents[1] / "serving" / "page.js"


def shown(port: int, *arguments: str) -> Any:
    """What the page shows."""
    command = ["node", str(SCRIPT), f"http://127.0.0.1:{port}/", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def described(document: Any) -> list[str]:
    return [operation["operationId"] for path in document["paths"].values() for operation in path.values()]


def test_the_page_shows_every_operation_and_schema(server: ServerProcess) -> None:
    document = get(server.port, "/openapi.json").json
    page = shown(server.port)
    assert page["description"] == document["info"]["description"]
    assert page["operations"] == described(document)
    assert page["schemas"] == len(document["components"]["schemas"])
    assert not page["asksForKey"]


def test_the_page_of_a_server_with_a_key_asks_for_it(tmp_path: Path) -> None:
    with serve_in_process(tmp_path, env={"LLMSERVE_API_KEY": "right-key"}) as locked:
        page = shown(locked.port, "", "listModels")
        assert page["operations"] == described(get(locked.port, "/openapi.json").json)
        assert page["asksForKey"]
        assert page["status"] == "401 Unauthorized"
        page = shown(locked.port, "right-key", "listModels")
        assert page["status"] == "200 OK"
        assert json.loads(page["output"])["data"] == []
