"""Other clients of the OpenAI API, and those of Anthropic's, as they come from PyPI, with an API key.

What each does is in `clients/*_checks.py`.
"""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from clients.environment import client_python
from clients.running import names_of, run_program
from documents import ADDRESS, blocks
from serving import ServerProcess, serve
from serving.openai_requests import MODEL
from serving.process import environment

pytestmark = [pytest.mark.model, pytest.mark.clients]

KEY = "a-key-of-the-tests"
PROGRAMS = {
    "langchain_checks": "clients",
    "litellm_checks": "clients",
    "llm_checks": "clients",
    "anthropic_checks": "anthropic",
    "langchain_anthropic_checks": "anthropic",
    "openai_checks": "clients",
    "agents_checks": "agents",
    "instructor_checks": "agents",
    "pydantic_ai_checks": "agents",
}
"""Programs, and the environments that have their clients."""

Results: TypeAlias = dict[str, str | None]


@pytest.fixture(scope="module")
def server(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that wants a key."""
    with serve(tmp_path_factory.mktemp("clients"), model_path, env={"LLMSERVE_API_KEY": KEY}) as running:
        running.wait_until_ready()
        yield running


@pytest.fixture(scope="module")
def found(server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Results]:
    """What the checks of a program found; it runs once."""

    @functools.cache
    def run(program: str) -> Results:
        folder = tmp_path_factory.mktemp(program)
        base = f"http://127.0.0.1:{server.port}/v1"
        write_llm_models(folder, base)
        env = {"BASE": base, "MODEL": MODEL, "KEY": KEY, "LLM_USER_PATH": str(folder)}
        return run_program(client_python(PROGRAMS[program]), program, env, folder)

    return run


def write_llm_models(folder: Path, base: str) -> None:
    """The configuration of `llm`; JSON is YAML."""
    common = {"model_name": MODEL, "api_base": base, "api_key_name": "right"}
    models = [
        {**common, "model_id": "local", "supports_schema": True, "supports_tools": True},
        {**common, "model_id": "raw", "completion": True},
        {**common, "model_id": "unknown", "model_name": "none"},
        {**common, "model_id": "locked", "api_key_name": "wrong"},
    ]
    (folder / "extra-openai-models.yaml").write_text(json.dumps(models))
    (folder / "keys.json").write_text(json.dumps({"right": KEY, "wrong": "wrong"}))


def test_the_programs_of_anthropics_page(server: ServerProcess, tmp_path: Path) -> None:
    for program in blocks("python", "docs/anthropic.md"):
        placed = program.replace(ADDRESS, f"http://127.0.0.1:{server.port}").replace('"none"', repr(KEY))
        (tmp_path / "program.py").write_text(placed)
        made = subprocess.run(
            [client_python("anthropic"), str(tmp_path / "program.py")],
            capture_output=True,
            text=True,
            env=environment({}),
        )
        assert made.returncode == 0, made.stderr
        assert made.stdout.strip()


@pytest.mark.parametrize(
    ("program", "check"), [(program, check) for program in PROGRAMS for check in names_of(program)]
)
def test_client(found: Callable[[str], Results], program: str, check: str) -> None:
    failure = found(program)[check]
    if failure is not None:
        pytest.fail(failure, pytrace=False)
