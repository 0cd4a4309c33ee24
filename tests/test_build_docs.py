"""The programs and tables of the pages in `docs`, tried as they stand there."""

from __future__ import annotations

import asyncio
import re
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import numpy
import pydantic
import pytest

import llmserve
from clients.environment import client_python
from documents import ADDRESS, DOCUMENTS, blocks, run_commands, run_program
from llmserve.cli.parser import build_parser, subparser
from llmserve.server.apis.openai.chat_schema import ChatRequest
from llmserve.server.web.fields import properties
from serving import free_port, get, post, serve, serve_in_process, serve_with_uvicorn

COMING_FROM = DOCUMENTS["docs/coming-from.md"]


def test_the_python_page(tiny_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All its blocks, one after the other, in a coroutine."""
    monkeypatch.chdir(tmp_path)
    program = "".join(blocks("python", "docs/python.md"))
    paths = {
        "model.gguf": tiny_models / "draft_head.gguf",
        "bge-small-en-v1.5.gguf": tiny_models / "bert-mean.gguf",
    }
    for name, path in paths.items():
        assert f'"{name}"' in program
        program = program.replace(f'"{name}"', repr(str(path)))
    names: dict[str, Any] = {"llmserve": llmserve, "numpy": numpy, "pydantic": pydantic}
    body = textwrap.indent(program, "    ")
    exec(f"async def main():\n{body}\n    await engine.close()\n    return completion, matrix", names)  # noqa: S102
    completion, matrix = asyncio.run(names["main"]())
    assert completion.finish_reason in ("stop", "length")
    assert len(matrix) == 2


def test_the_openai_page(tiny_models: Path, tmp_path: Path) -> None:
    """Its programs behind the first one, which connects."""
    first, stored, embeddings = blocks("python", "docs/openai.md")
    connection = "\n".join(first.splitlines()[:4])
    embeddings = embeddings.replace("bge-small-en-v1.5", "bert-mean")
    shown = f"{stored}\nprint(second.previous_response_id == first.id)"
    for model, program, begin in (("llama", shown, "True"), ("bert-mean", embeddings, "[")):
        with serve_in_process(tmp_path, tiny_models / f"{model}.gguf") as server:
            address = f"http://127.0.0.1:{server.port}"
            whole = f"{connection}\n{program}".replace(ADDRESS, address)
            assert run_program(whole, tmp_path).startswith(begin)


@pytest.mark.clients
@pytest.mark.model
def test_the_ollama_page(model_path: Path, tmp_path: Path) -> None:
    program = tmp_path / "page.py"
    with serve_in_process(tmp_path, model_path) as server:
        address = f"http://127.0.0.1:{server.port}"
        program.write_text("".join(blocks("python", "docs/ollama.md")).replace(ADDRESS, address))
        made = subprocess.run([client_python("ollama"), program], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    assert re.search(r"name='.*' age=\d+", made.stdout)


def test_the_grpc_page(tiny_model: Path, tmp_path: Path) -> None:
    (compiling,) = [block for block in blocks("sh", "docs/grpc.md") if "protoc" in block]
    commands = compiling.replace("pip install grpcio-tools\n", "").replace("_out=.", f"_out={tmp_path}")
    run_commands(commands.replace("python -m", ".venv/bin/python -m"))
    (program,) = blocks("python", "docs/grpc.md")
    port = free_port()
    with serve(tmp_path, tiny_model, "--grpc-port", str(port)) as server:
        server.wait_until_ready()
        printed = run_program(program, tmp_path, f"127.0.0.1:{port}", str(tiny_model))
    assert "loading 100%" in printed


def test_mounting_into_fastapi(tiny_model: Path, tmp_path: Path) -> None:
    (program,) = blocks("python", "docs/deployment.md")
    (tmp_path / "mounting.py").write_text(program)
    env = {"LLMSERVE_MODEL": str(tiny_model)}
    with serve_with_uvicorn(tmp_path, app="mounting:app", env=env) as server:
        server.wait_until_listening()
        body = {"model": tiny_model.stem, "prompt": "sea", "max_tokens": 3}
        assert post(server.port, "/llm/v1/completions", body).json["usage"]["completion_tokens"] == 3
        assert get(server.port, "/llm/ready").status == 200


@pytest.mark.model
def test_showing_a_model() -> None:
    (commands,) = blocks("sh", "docs/choosing-a-model.md")
    assert "8192  274 MiB" in run_commands(commands)


def test_every_public_name_is_in_the_reference() -> None:
    page = DOCUMENTS["docs/python-reference.md"]
    named = set(re.findall(r"^::: llmserve\.(\w+)$", page, re.MULTILINE))
    errors = {name for name in llmserve.__all__ if name.endswith("Error")}
    assert named - {"errors"} == set(llmserve.__all__) - errors - {"__version__", "sync"}


def test_every_option_in_the_comparison_exists() -> None:
    options = _in_first_column("Settings", r"`(-[a-z-]+)")
    assert len(options) > 30
    assert options - set(subparser(build_parser(["serve"]), "serve")._option_string_actions) == set()


def test_every_field_in_the_comparison_exists() -> None:
    fields = _in_first_column("Fields of a request", r"`(\w+)`")
    assert len(fields) > 20
    assert fields - {prop.name for prop in properties(ChatRequest)} == set()


def _in_first_column(section: str, pattern: str) -> set[str]:
    text = COMING_FROM.partition(f"## {section}\n")[2].partition("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    return {name for row in rows[2:] for name in re.findall(pattern, row.split(" | ")[0])}
