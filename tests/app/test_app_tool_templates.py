"""Tools and their results for templates that take no system message, or no two of a user in a row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serving import Server, post, serve_in_process

TEMPLATES = Path(__file__).parent.parent / "data" / "templates" / "jinja"
WITHOUT_SYSTEM = ("mistral-v1", "phi-3-mini", "phi-3-medium", "own-human", "own-turns", "own-turns-bos")
ALTERNATING = ("mistral-nemo", "mistral-small-3.2", "ministral-3", "own-inst-tools", "own-inst-alternating")
NAMES = (*WITHOUT_SYSTEM, *ALTERNATING)
TOOL = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}},
}


@pytest.fixture(scope="module")
def server(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("templates")
    catalogue = folder / "catalogue.toml"
    catalogue.write_text(
        "".join(
            f"[[models]]\nid = '{name}'\npath = '{tiny_model}'\n"
            f"chat_template_file = '{TEMPLATES / name}.jinja'\n"
            for name in NAMES
        )
    )
    env = {"LLMSERVE_CATALOGUE": str(catalogue), "LLMSERVE_MAX_SEQUENCES": "1"}
    with serve_in_process(folder, env=env) as running:
        yield running


def prompt(server: Server, model: str, messages: list[dict[str, Any]]) -> str:
    answer = post(server.port, "/apply-template", {"model": model, "messages": messages, "tools": [TOOL]})
    assert answer.status == 200, answer.text
    text: str = answer.json["prompt"]
    return text


@pytest.mark.parametrize("model", NAMES)
def test_tools_and_what_follows_their_results_are_shown(server: Server, model: str) -> None:
    assert "weather" in prompt(server, model, [{"role": "user", "content": "Rain?"}])
    call = {"id": "toolu_01Abc", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    shown = prompt(
        server,
        model,
        [
            {"role": "user", "content": "Rain?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "toolu_01Abc", "content": "Sunshine."},
            {"role": "user", "content": "Really?"},
        ],
    )
    places = [shown.find(word) for word in ("Rain?", "Sunshine.", "Really?")]
    assert -1 not in places and places == sorted(places)


def test_an_id_is_the_same_in_a_call_and_in_its_result(server: Server) -> None:
    calls = [
        {"id": f"call_{name}", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
        for name in "ab"
    ]
    results = [{"role": "tool", "tool_call_id": f"call_{name}", "content": name} for name in "ba"]
    shown = prompt(
        server,
        "mistral-nemo",
        [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": "", "tool_calls": calls},
            *results,
        ],
    )
    ids = [part[:9] for part in shown.split('"id": "')[1:]]
    result_ids = [part[:9] for part in shown.split('"call_id": "')[1:]]
    assert len(set(ids)) == 2
    assert sorted(ids) == sorted(result_ids)
