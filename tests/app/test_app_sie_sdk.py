"""The client `sie-sdk`, as it comes from PyPI, against a real server.

It needs Python 3.12 or newer, in an environment of its own (`clients`); where the machine has none, or no
package index can be reached, this is skipped.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clients.environment import client_python
from documents import ADDRESS, blocks
from serving import ServerProcess, serve
from serving.process import TESTS, environment

pytestmark = [pytest.mark.model, pytest.mark.clients]

PROMPT = "The capital of France is"


@pytest.fixture(scope="module")
def sdk_python() -> str:
    """An interpreter that has the client."""
    return client_python("sie-sdk", oldest_minor=12)


class Sdk:
    """The client in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], model: str) -> None:
        self._process = process
        self._model = model

    def __call__(self, method: str, *, is_async: bool = False, **arguments: Any) -> Any:
        answer = self._ask(method, is_async, arguments)
        assert "result" in answer, answer
        return answer["result"]

    def error(self, method: str, *, is_async: bool = False, **arguments: Any) -> tuple[str, str | None]:
        """Type and code of what the client raises."""
        answer = self._ask(method, is_async, arguments)
        assert "error" in answer, answer
        return answer["error"]["type"], answer["error"]["code"]

    def _ask(self, method: str, is_async: bool, arguments: dict[str, Any]) -> Any:
        if method != "list_models":
            arguments = {"model": self._model, "prompt": PROMPT, "max_new_tokens": 8, **arguments}
        call = {"method": method, "arguments": arguments, "is_async": is_async}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(call) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@pytest.fixture(scope="module")
def server_of_org(
    model_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ServerProcess, str]]:
    """A server with a model that has a slash in its id, not loaded yet."""
    folder = tmp_path_factory.mktemp("sdk")
    models = folder / "models"
    (models / "Org").mkdir(parents=True)
    (models / "Org" / "Name.gguf").symlink_to(model_path)
    with serve(folder, model_path, env={"MODELS_DIR": str(models)}) as server:
        server.wait_until_ready()
        yield server, "Org/Name"


@pytest.fixture(scope="module")
def sdk(sdk_python: str, server_of_org: tuple[ServerProcess, str]) -> Iterator[Sdk]:
    server, model = server_of_org
    command = [sdk_python, str(TESTS / "clients" / "sie_calls.py"), f"http://127.0.0.1:{server.port}"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment({})
    )
    with process:
        yield Sdk(process, model)
        assert process.stdin is not None
        process.stdin.close()


def test_the_program_of_the_page(sdk_python: str, server_of_org: tuple[ServerProcess, str]) -> None:
    server, _ = server_of_org
    (program,) = blocks("python", "docs/sie.md")
    program = program.replace(ADDRESS, f"http://127.0.0.1:{server.port}")
    made = subprocess.run([sdk_python, "-c", program], capture_output=True, text=True, env=environment({}))
    assert made.returncode == 0, made.stderr
    assert "Paris" in made.stdout


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_generate(sdk: Sdk, is_async: bool) -> None:
    made = sdk(
        "generate",
        is_async=is_async,
        temperature=0,
        top_p=0.9,
        stop=["\n"],
        seed=7,
        safety_identifier="someone",
        prompt_cache_key="k",
        routing_key="r",
        gpu="l4",
        options={"default_sampling": {"top_k": 40}, "overall_timeout_s": 60},
    )
    assert made["model"] == "Org/Name"
    assert made["text"] == " Paris."
    assert made["finish_reason"] == "stop"
    assert made["usage"]["completion_tokens"] <= 8
    assert "cached_tokens" in made["usage"]["prompt_tokens_details"]
    assert made["request"]["id"]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_stream_generate(sdk: Sdk, is_async: bool) -> None:
    whole = sdk("generate", temperature=0)
    chunks = sdk("stream_generate", is_async=is_async, temperature=0, logprobs=True, top_logprobs=2)
    assert "".join(chunk["text_delta"] for chunk in chunks) == whole["text"]
    assert [chunk["seq"] for chunk in chunks] == list(range(len(chunks)))
    assert sum(len(chunk["logprobs"]) for chunk in chunks[:-1]) == 8
    assert chunks[-1]["done"]
    assert chunks[-1]["finish_reason"] == "length"
    assert chunks[-1]["usage"]["total_tokens"] == whole["usage"]["total_tokens"]
    assert chunks[-1]["ttft_ms"] > 0


def test_grammars(sdk: Sdk) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    text = sdk("generate", max_new_tokens=40, grammar={"json_schema": schema, "label": "city"})["text"]
    assert isinstance(json.loads(text)["city"], str)
    text = sdk("generate", grammar={"regex": "[A-Z][a-z]{2}", "strict": True})["text"]
    assert re.fullmatch("[A-Z][a-z]{2}", text)
    chunks = sdk("stream_generate", grammar={"ebnf": 'root ::= "yes" | "no"'})
    assert "".join(chunk["text_delta"] for chunk in chunks) in ("yes", "no")


@pytest.mark.parametrize("method", ["generate", "stream_generate"])
@pytest.mark.parametrize(
    ("arguments", "kind", "code"),
    [
        ({"model": "No/Such"}, "RequestError", "MODEL_NOT_FOUND"),
        ({"temperature": -1}, "RequestError", "invalid_request"),
        ({"lora_adapter": "x"}, "RequestError", "unsupported_field"),
        ({"max_new_tokens": 100_000}, "RequestError", "context_exceeded"),
        (
            {"prompt": "word " * 1500, "options": {"overall_timeout_s": 0.001}},
            "ServerError",
            "overall_timeout",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_errors(sdk: Sdk, method: str, arguments: dict[str, Any], kind: str, code: str) -> None:
    assert sdk.error(method, **arguments) == (kind, code)


def test_an_error_in_a_stream_is_raised(sdk: Sdk) -> None:
    arguments: dict[str, Any] = {
        "max_new_tokens": 1900,
        "temperature": 0,
        "options": {"overall_timeout_s": 0.3},
    }
    assert sdk.error("stream_generate", **arguments) == ("ServerError", "overall_timeout")


def test_the_models(sdk: Sdk) -> None:
    by_name = {model["name"]: model for model in sdk("list_models")}
    assert "Org/Name" in by_name
