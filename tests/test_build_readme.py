"""The README's commands, run as they stand there: a newcomer types them first."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from native import cache_dir
from toolchain import ROOT

README = (ROOT / "README.md").read_text()
PATHS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
DOCUMENTS = {path: path.read_text() for path in PATHS}
LLAMACPP_SERVER = DOCUMENTS[ROOT / "docs" / "llamacpp-server.md"]
DEFAULT_MODEL = cache_dir() / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
SERVER = Path(sys.executable).with_name("llmserve")
ADDRESS = "http://127.0.0.1:8082"

pytestmark = pytest.mark.model


def _blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def _environment() -> dict[str, str]:
    """The user's home as the README assumes it, with the model where the cache really is."""
    return {name: value for name, value in os.environ.items() if name != "LLMSERVE_CARGO_FEATURES"}


def _local(text: str) -> str:
    return text.replace("~/.cache/llmserve", str(cache_dir())).replace(
        'Path.home() / ".cache/llmserve/', f'Path("{cache_dir()}") / "'
    )


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server of the default model, started by the command that `make serve` runs."""
    assert DEFAULT_MODEL.exists(), "run `llmserve pull` first"
    with subprocess.Popen(
        [SERVER, "serve", "--port", "0"],
        env=_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        seen: list[str] = []
        for line in process.stdout:
            seen.append(line)
            if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                yield found[0]
                break
        else:
            pytest.fail("the server ended without serving:\n" + "".join(seen))
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 0


def _curl(address: str, route: str, text: str = README) -> str:
    """Run the one block of a page that calls a route; returns what it prints."""
    (block,) = [block for block in _blocks("sh", text) if f"{ADDRESS}{route}" in block]
    return _run(block, address)


def _run(commands: str, address: str) -> str:
    script = _local(commands).replace(ADDRESS, address)
    result = subprocess.run(
        ["bash", "-euc", script], env=_environment(), capture_output=True, text=True, check=False, timeout=300
    )
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def _data(stream: str) -> list[str]:
    return [line.removeprefix("data: ") for line in stream.splitlines() if line.startswith("data: ")]


def test_health(address: str) -> None:
    assert json.loads(_curl(address, "/health"))["status"] == "ok"


def test_chat(address: str) -> None:
    answer = json.loads(_curl(address, "/v1/chat/completions"))
    assert answer["choices"][0]["message"]["content"]


def test_openai_client(address: str, tmp_path: Path) -> None:
    (program,) = [block for block in _blocks("python") if "openai" in block]
    assert _run_program(tmp_path, program.replace(ADDRESS, address))


def test_loading_shows_progress(address: str) -> None:
    *progress, done = _data(_curl(address, "/models/load", LLAMACPP_SERVER))
    values = [json.loads(item)["progress"] for item in progress]
    assert values == sorted(values)
    assert values[-1] == 1
    assert done == "[DONE]"


def test_completion_comes_token_by_token(address: str) -> None:
    _curl(address, "/models/load", LLAMACPP_SERVER)
    *tokens, done = _data(_curl(address, "/completions", LLAMACPP_SERVER))
    events = [json.loads(item) for item in tokens]
    assert done == "[DONE]"
    assert [event["tokens"] for event in events] == list(range(1, len(events) + 1))
    assert "Paris" in "".join(event["message"] for event in events)


def test_commands_of_llamatiks_page(address: str, tmp_path: Path) -> None:
    commands = "".join(_blocks("sh", DOCUMENTS[ROOT / "docs" / "llamatik.md"]))
    printed = _run(commands.replace("/tmp/", f"{tmp_path}/"), address)  # noqa: S108 - it is in the page
    # All but `mtp/init`, for which the default model has no head.
    errors = re.findall(r'"error":"([^"]*)"', printed)
    assert errors == ["the model has no head for multi-token prediction (MTP) that can draft"]
    assert (tmp_path / "story.bin").exists()


@pytest.mark.parametrize(("number", "expected"), [(0, "1. Bananas"), (1, "")])
def test_python_programs(tmp_path: Path, number: int, expected: str) -> None:
    programs = [block for block in _blocks("python") if "llmserve" in block]
    assert len(programs) == 2
    printed = _run_program(tmp_path, programs[number])
    assert expected in printed
    assert len(printed) > 20


def _run_program(folder: Path, text: str) -> str:
    program = folder / "program.py"
    program.write_text(_local(text))
    result = subprocess.run(
        [sys.executable, "-W", "error", str(program)],
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        name
        for text in DOCUMENTS.values()
        for name in re.findall(r"(?:^|`)make ([a-z]+)", text, re.MULTILINE)
    }
    assert {"serve", "test", "help", "build"} <= named
    assert named - targets == set()


def test_links_lead_somewhere() -> None:
    for path, text in DOCUMENTS.items():
        for link in re.findall(r"\]\(([^)#]+)", text):
            assert "://" in link or (path.parent / link).exists(), f"{path.name}: {link}"
