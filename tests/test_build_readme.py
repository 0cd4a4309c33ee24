"""The README's commands, run as they stand there: a newcomer types them first."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from documents import ADDRESS, DOCUMENTS, blocks, environment, run_commands, run_program
from toolchain import ROOT

README = "README.md"
LLAMACPP_SERVER = "docs/llamacpp-server.md"
SERVER = Path(sys.executable).with_name("llmserve")

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def address(model_path: Path) -> Iterator[str]:
    """A server of the default model, started by the command that `make serve` runs."""
    assert model_path.exists()
    with subprocess.Popen(
        [SERVER, "serve", "--port", "0"],
        env=environment(),
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


def _curl(address: str, route: str, page: str = README) -> str:
    """Run the one block of a page that calls a route; returns what it prints."""
    (block,) = [block for block in blocks("sh", page) if f"{ADDRESS}{route}" in block]
    return run_commands(block, address)


def _data(stream: str) -> list[str]:
    return [line.removeprefix("data: ") for line in stream.splitlines() if line.startswith("data: ")]


def test_health(address: str) -> None:
    assert json.loads(_curl(address, "/health"))["status"] == "ok"


def test_chat(address: str) -> None:
    answer = json.loads(_curl(address, "/v1/chat/completions"))
    assert answer["choices"][0]["message"]["content"]


def test_the_command_of_anthropics_page(address: str) -> None:
    (command,) = blocks("sh", "docs/anthropic.md")
    message = json.loads(run_commands(command, address))
    assert message["content"][0]["text"]


@pytest.mark.parametrize("page", [README, "docs/openai.md"])
def test_openai_client(address: str, tmp_path: Path, page: str) -> None:
    program = next(block for block in blocks("python", page) if "import OpenAI" in block)
    assert run_program(program.replace(ADDRESS, address), tmp_path).strip()


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
    commands = "".join(blocks("sh", "docs/llamatik.md"))
    printed = run_commands(commands.replace("/tmp/", f"{tmp_path}/"), address)  # noqa: S108 - it is in the page
    # All but `mtp/init`, for which the default model has no head.
    errors = re.findall(r'"error":"([^"]*)"', printed)
    assert errors == ["the model has no head for multi-token prediction (MTP) that can draft"]
    assert (tmp_path / "story.bin").exists()


def test_the_first_program(tmp_path: Path) -> None:
    first, _ = (block for block in blocks("python", README) if "llmserve" in block)
    (tmp_path / "poems.py").write_text(first)
    (commands,) = [block for block in blocks("sh", README) if "poems.py" in block]
    assert "1. Bananas" in run_commands(commands, folder=tmp_path)


def test_the_program_without_an_event_loop(model_path: Path, tmp_path: Path) -> None:
    _, second = (block for block in blocks("python", README) if "llmserve" in block)
    assert len(run_program(second, tmp_path, str(model_path))) > 20


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
    for name, text in DOCUMENTS.items():
        for link in re.findall(r"\]\(([^)#]+)", text):
            assert "://" in link or ((ROOT / name).parent / link).exists(), f"{name}: {link}"


def test_old_versions_of_curl_understand_every_command() -> None:
    for name in DOCUMENTS:
        for block in blocks("sh", name):
            assert not re.search(r"curl [^|]*--json", block), f"{name}: curl has --json since 7.82"
