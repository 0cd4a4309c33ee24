"""The programs of `examples`, run with the default model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from documents import run_commands
from serving import get, serve_in_process, serve_with_uvicorn
from toolchain import ROOT

EXAMPLES = ROOT / "examples"
NOTES = """The printer in the hall is reached at port 9100.

Lunch is served from noon to two in the garden.

The library's books must be returned after three weeks.

Bicycles may be left in the cellar, but not in the stairway.
"""

pytestmark = pytest.mark.model


def _run(name: str, folder: Path, *arguments: str) -> str:
    quoted = " ".join(f"'{argument}'" for argument in arguments)
    return run_commands(f".venv/bin/python -W error '{EXAMPLES / name}' {quoted}", folder=folder)


def test_fastapi(model_path: Path, tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "fastapi_app.py", tmp_path)
    with serve_with_uvicorn(tmp_path, app="fastapi_app:app", env={"MODEL": str(model_path)}) as server:
        server.wait_until_listening()
        assert len(get(server.port, "/poem?topic=rain").text) > 20
        assert get(server.port, "/cities/Paris").json.keys() == {"country", "is_capital"}


def test_batch(tiny_model: Path, tmp_path: Path) -> None:
    questions = [f"What is {number} plus {number}?" for number in range(40)]
    lines = [
        json.dumps({"messages": [{"role": "user", "content": question}], "max_tokens": 1 + index % 5})
        for index, question in enumerate(questions)
    ]
    lines[7] = '{"max_tokens": 3}'
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    _run("batch.py", tmp_path, str(tiny_model), "in.jsonl", "out.jsonl")
    answers = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert answers.pop(7) == {"error": "KeyError: 'messages'"}
    assert [answer["completion_tokens"] for answer in answers[:5]] == [1, 2, 3, 4, 5]
    assert len(answers) == 39


def test_retrieval(model_path: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text(NOTES)
    question = "Which port does the printer use?"
    *found, answer = _run("retrieval.py", tmp_path, str(model_path), "notes.txt", question).splitlines()
    assert found[0] == "> The printer in the hall is reached at port 9100."
    assert "9100" in answer


def test_agent(model_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve_in_process(tmp_path, model_path) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.port}/v1")
        first, *_, answer = _run("agent.py", tmp_path, "How is the weather in Paris?").splitlines()
    assert first == 'weather({"city":"Paris"}) = rain, 12 °C'
    assert answer
