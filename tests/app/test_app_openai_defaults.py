"""Default sampling and chat templates that the operator sets, on a real server process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serving import ServerProcess, get, post, serve
from serving.openai_requests import CAPITAL, MODEL, text_of

pytestmark = pytest.mark.model

TEMPLATE = "{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}" + "{# long #}" * 100


@pytest.fixture(scope="module")
def greedy(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose requests are greedy by default, with a template of its own."""
    folder = tmp_path_factory.mktemp("greedy")
    (folder / "chat.jinja").write_text(TEMPLATE)
    env = {
        "LLMSERVE_DEFAULT_SAMPLING": '{"temperature": 0}',
        "LLMSERVE_CHAT_TEMPLATE_FILE": str(folder / "chat.jinja"),
    }
    with serve(folder, model_path, env=env) as running:
        running.wait_until_ready()
        yield running


BODIES: dict[str, dict[str, Any]] = {
    "/v1/completions": {"model": MODEL, "prompt": CAPITAL, "max_tokens": 8},
    "/completion": {"prompt": CAPITAL, "n_predict": 8},
    "/v1/chat/completions": {
        "model": MODEL,
        "messages": [{"role": "user", "content": CAPITAL}],
        "max_tokens": 8,
    },
    "/v1/responses": {"model": MODEL, "input": CAPITAL, "max_output_tokens": 8},
    "/v1/messages": {
        "model": MODEL,
        "messages": [{"role": "user", "content": CAPITAL}],
        "max_tokens": 8,
    },
}


def ask(server: ServerProcess, path: str, **fields: Any) -> str:
    return text_of(post(server.port, path, {**BODIES[path], **fields}))


@pytest.mark.parametrize("path", BODIES)
def test_fields_that_are_left_out_have_the_servers_defaults(greedy: ServerProcess, path: str) -> None:
    texts = {ask(greedy, path, seed=seed) for seed in range(2)}
    assert texts == {ask(greedy, path, temperature=0)}
    # The default of the dialect, if the client sends it, is not that of the server.
    drawn = {ask(greedy, path, seed=seed, temperature=1.0) for seed in range(3)}
    assert len(drawn) > 1


def test_responses_tell_the_values_in_force(greedy: ServerProcess) -> None:
    answer = post(greedy.port, "/v1/responses", BODIES["/v1/responses"]).json
    assert (answer["temperature"], answer["top_p"]) == (0, 1)


def test_the_template_is_the_servers(greedy: ServerProcess) -> None:
    assert get(greedy.port, f"/props?model={MODEL}").json["chat_template"] == TEMPLATE
    by_chat = ask(greedy, "/v1/chat/completions")
    assert by_chat == ask(greedy, "/v1/completions", prompt=f"[user] {CAPITAL}")
