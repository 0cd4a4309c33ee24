"""Clients of Ollama's API, as they come from PyPI.

What each does is in `clients/*_checks.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from clients.environment import client_python
from clients.running import names_of, run_program
from serving import serve_folder, serve_in_process
from serving.hub_site import hub_site

pytestmark = [pytest.mark.model, pytest.mark.clients]

KEY = "a-key-of-the-tests"
PROGRAMS = ("ollama_checks", "langchain_ollama_checks", "llama_index_ollama_checks")
TEMPLATES = Path(__file__).parent.parent / "data" / "templates" / "jinja"
# Shows reasoning of former turns, so that the model goes on with it.
THINKING = """\
{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and not enable_thinking %}<think>

</think>

{% endif %}{% endif %}"""

Results: TypeAlias = dict[str, str | None]


@pytest.fixture(scope="module")
def python() -> str:
    """An interpreter that has the clients."""
    return client_python("ollama")


@pytest.fixture(scope="module")
def host(
    model_path: Path, tiny_models: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, dict[str, str]]]:
    """A server that wants a key, with one model under several templates, and the names of its models."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "thinking.jinja").write_text(THINKING)
    entries = {
        "MODEL": ("smol", model_path, None),
        "CALLER": ("caller", model_path, TEMPLATES / "qwen-3.jinja"),
        "THINKER": ("thinker", model_path, folder / "thinking.jinja"),
        "EMBEDDER": ("bert", tiny_models / "bert-mean.gguf", None),
    }
    catalogue = folder / "catalogue.toml"
    catalogue.write_text("".join(_entry(*entry) for entry in entries.values()))
    env = {"LLMSERVE_CATALOGUE": str(catalogue), "LLMSERVE_LOAD_WAIT_S": "120", "LLMSERVE_API_KEY": KEY}
    with serve_in_process(folder, env=env) as server:
        yield f"http://127.0.0.1:{server.port}", {name: entry[0] for name, entry in entries.items()}
        assert "Traceback" not in server.log


def _entry(name: str, model: Path, template: Path | None) -> str:
    given = "" if template is None else f"chat_template_file = '{template}'\n"
    return f"[[models]]\nid = '{name}'\npath = '{model}'\n{given}"


@pytest.fixture(scope="module")
def folder_host(tiny_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with an empty folder of models, and a stand-in of the Hub."""
    folder = tmp_path_factory.mktemp("folder")
    (folder / "models").mkdir()
    with pytest.MonkeyPatch.context() as patch, hub_site() as site:
        patch.setenv("HF_ENDPOINT", site.url)
        site.add_repository("Tiny-Q4_0.gguf", content=(tiny_models / "llama.gguf").read_bytes())
        with serve_folder(folder, folder / "models") as server:
            yield f"http://127.0.0.1:{server.port}"


@pytest.fixture(scope="module")
def found(
    python: str,
    host: tuple[str, dict[str, str]],
    folder_host: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str], Results]:
    """What the checks of a program found; it runs once."""

    @functools.cache
    def run(program: str) -> Results:
        env = {"OLLAMA_HOST": host[0], "OLLAMA_API_KEY": KEY, "FOLDER": folder_host, **host[1]}
        return run_program(python, program, env, tmp_path_factory.mktemp(program))

    return run


@pytest.mark.parametrize(
    ("program", "check"), [(program, check) for program in PROGRAMS for check in names_of(program)]
)
def test_client(found: Callable[[str], Results], program: str, check: str) -> None:
    failure = found(program)[check]
    if failure is not None:
        pytest.fail(failure, pytrace=False)
