"""Models that are loaded when a client of the OpenAI API first names them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from serving import Server, get, post, serve_in_process, wait_until
from serving.openai_requests import CAPITAL, user

pytestmark = pytest.mark.model


@pytest.fixture
def impatient(model_path: Path, tiny_model: Path, tmp_path: Path) -> Iterator[Server]:
    """A server that lets nobody wait for a load."""
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "Org__Name.gguf").symlink_to(model_path)
    env = {"MODELS_DIR": str(folder), "LLMSERVE_LOAD_WAIT_S": "0"}
    with serve_in_process(tmp_path, tiny_model, env=env) as server:
        yield server


def test_a_load_is_told_with_a_time_to_try_again(impatient: Server) -> None:
    def loaded() -> bool:
        models = get(impatient.port, "/v1/models").json["models"]
        return bool(next(model for model in models if model["name"] == "Org/Name")["loaded"])

    assert not loaded()
    body = {"model": "Org/Name", "prompt": CAPITAL, "max_tokens": 2, "temperature": 0}
    answer = post(impatient.port, "/v1/completions", body)
    assert answer.status == 503
    assert answer.json["error"]["code"] == "model_loading"
    assert int(answer.header("retry-after") or 0) >= 1
    wait_until(loaded)
    answer = post(impatient.port, "/v1/completions", body)
    assert (answer.status, answer.json["choices"][0]["text"]) == (200, " Paris.")
    assert answer.json["model"] == "Org/Name"


def test_the_client_tries_again_by_itself(impatient: Server) -> None:
    url = f"http://127.0.0.1:{impatient.port}/v1"
    with openai.OpenAI(base_url=url, api_key="none", max_retries=60, timeout=300) as client:
        answer = client.chat.completions.create(model="Org/Name", messages=user("Say hello"), max_tokens=2)
    assert answer.choices[0].message.content is not None
