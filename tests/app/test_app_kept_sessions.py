"""Named sessions outlive the server in `SESSIONS_DIR`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from serving import Llamatik, serve_in_process

SHORT: dict[str, Any] = {"maxTokens": 8, "temperature": 0, "repeatPenalty": 1}


def begin(api: Llamatik, name: str) -> None:
    api.text("generate", prompt=f"Once upon a time, {name}", sessionId=name, **SHORT)


def go_on(api: Llamatik, name: str) -> dict[str, Any]:
    return api.whole("continue", prompt=" and", sessionId=name, **SHORT)


def test_sessions_come_back_once(tiny_model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    env = {"SESSIONS_DIR": str(folder)}
    with serve_in_process(tmp_path, tiny_model, env=env) as server:
        api = Llamatik(server)
        api.init(tiny_model)
        for name in ("Ada", "Bob.2"):
            begin(api, name)
    files = sorted(folder.glob("kept/*/*"))
    assert [file.name for file in files] == ["Ada.session", "Bob.2.session"]

    with serve_in_process(tmp_path, tiny_model, env=env) as server:
        api = Llamatik(server)
        api.init(tiny_model)
        again = go_on(api, "Ada")
        begin(api, "fresh")
        api.text("generate", prompt="Once upon a time, Ada", sessionId="like-Ada", **SHORT)
        assert again["text"] == go_on(api, "like-Ada")["text"]
        assert again["usage"]["promptTokens"] > 25
        assert list(folder.glob("kept/*/Ada*")) == []


def test_a_damaged_file_is_forgotten_and_told(tiny_model: Path, tmp_path: Path) -> None:
    env = {"SESSIONS_DIR": str(tmp_path)}
    with serve_in_process(tmp_path, tiny_model, env=env) as server:
        api = Llamatik(server)
        api.init(tiny_model)
        begin(api, "Ada")
    (file,) = tmp_path.glob("kept/*/Ada.session")
    file.write_bytes(file.read_bytes()[:-1])
    with serve_in_process(tmp_path, tiny_model, env=env) as server:
        api = Llamatik(server)
        api.init(tiny_model)
        answer = api.post("continue", {"prompt": " and", "sessionId": "Ada", **SHORT})
        assert answer.status == 410, answer.text
        server.wait_for_log("could not be moved")
        assert not file.exists()
