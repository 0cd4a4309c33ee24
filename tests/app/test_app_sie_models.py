"""Models that a request of the SIE dialect needs loaded, and requests that are not let in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serving import Answer, RawStream, Server, get, post, serve, serve_in_process, wait_until

pytestmark = pytest.mark.model

BODY: dict[str, Any] = {"prompt": "The capital of France is", "max_new_tokens": 4, "temperature": 0}


def error(answer: Answer) -> tuple[int, str]:
    body = answer.json["error"]
    assert answer.header("x-sie-error-code") == body["code"]
    assert answer.header("x-sie-request-id")
    assert answer.header("x-sie-server-version")
    return answer.status, body["code"]


def iter_lines(stream: RawStream) -> Iterator[str]:
    assert stream.read_head()[0] == 200
    return stream.lines()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "models"
    made.mkdir()
    return made


@pytest.fixture
def catalogue(tmp_path: Path, model_path: Path, folder: Path) -> Iterator[Server]:
    (folder / "damaged.gguf").write_bytes(b"GGUF" + b"\0" * 100)
    (folder / "dangling.gguf").symlink_to("missing.gguf")
    text = f"""
        [[models]]
        id = "Org/Name"
        path = "{model_path}"
        max_new_tokens = 16
        context_length = 512

        [[models]]
        id = "Org/Damaged"
        path = "{folder / "damaged.gguf"}"

        [[models]]
        id = "Org/Dangling"
        path = "{folder / "dangling.gguf"}"
    """
    file = tmp_path / "catalogue.toml"
    file.write_text(text)
    with serve_in_process(tmp_path, env={"LLMSERVE_CATALOGUE": str(file)}) as server:
        yield server


def test_a_link_that_leads_nowhere_is_listed_with_the_reason(catalogue: Server) -> None:
    models = {model["name"]: model for model in get(catalogue.port, "/v1/models").json["models"]}
    assert models["Org/Dangling"]["last_error"]["code"] == "NOT_FOUND"
    assert models["Org/Damaged"]["last_error"] is None
    assert get(catalogue.port, "/v1/models/Org/Dangling").json["last_error"]["code"] == "NOT_FOUND"


def test_loading_on_demand(catalogue: Server) -> None:
    path = "/v1/generate/Org__Name"
    # Invalid requests load nothing.
    assert error(post(catalogue.port, path, {**BODY, "top_p": 0})) == (400, "invalid_request")
    assert catalogue.states() == []
    impatient = {**BODY, "options": {"first_chunk_timeout_s": 1e-6}}
    answer = post(catalogue.port, path, impatient)
    assert error(answer) == (503, "MODEL_LOADING")
    assert int(answer.header("retry-after") or 0) >= 1
    # The load goes on.
    wait_until(lambda: catalogue.states() == ["ready"])
    made = post(catalogue.port, path, BODY)
    assert made.status == 200
    assert made.json["model"] == "Org/Name"
    # The catalogue's own cap.
    answer = post(catalogue.port, path, {**BODY, "max_new_tokens": 17})
    assert error(answer) == (400, "context_exceeded")
    assert "at most 16" in answer.json["error"]["message"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_model_that_cannot_be_loaded(catalogue: Server, stream: bool) -> None:
    answer = post(catalogue.port, "/v1/generate/Org__Damaged", {**BODY, "stream": stream})
    assert error(answer) == (502, "MODEL_LOAD_FAILED")
    assert answer.header("retry-after") is None
    assert answer.header("x-sie-served-by") == "local"
    failure = answer.json["error"]
    assert (failure["error_class"], failure["permanent"], failure["attempts"]) == ("ENGINE", False, 1)
    assert "damaged.gguf" not in answer.text


def test_an_api_key(tmp_path: Path, model_path: Path) -> None:
    with serve_in_process(tmp_path, model_path, env={"LLMSERVE_API_KEY": "open-sesame"}) as server:
        path = f"/v1/generate/{model_path.stem}"
        answer = post(server.port, path, BODY)
        assert error(answer) == (401, "unauthorized")
        assert post(server.port, path, BODY, headers={"X-API-Key": "open-sesame"}).status == 200


def test_a_full_queue(tmp_path: Path, model_path: Path) -> None:
    env = {"LLMSERVE_MAX_SEQUENCES": "1", "LLMSERVE_MAX_QUEUED_REQUESTS": "1"}
    with serve_in_process(tmp_path, model_path, env=env) as server:
        path = f"/v1/generate/{model_path.stem}"
        body = {**BODY, "max_new_tokens": 1900, "stream": True}
        with RawStream(server.port, path, body) as running:
            next(iter_lines(running))
            with RawStream(server.port, path, body) as waiting:
                assert waiting.read_head()[0] == 200
                for stream in (False, True):
                    answer = post(server.port, path, {**BODY, "stream": stream})
                    assert error(answer) == (503, "QUEUE_FULL")
                    assert int(answer.header("retry-after") or 0) >= 1


def test_stopping(tmp_path: Path, model_path: Path) -> None:
    with serve(tmp_path, model_path, env={"LLMSERVE_GRACE_S": "0"}) as server:
        server.wait_until_ready()
        path = f"/v1/generate/{model_path.stem}"
        body = {**BODY, "max_new_tokens": 1900, "stream": True}
        with RawStream(server.port, path, body) as stream:
            lines = iter_lines(stream)
            next(lines)
            server.process.terminate()
            rest = list(lines)
        assert rest[-1] == "data: [DONE]"
        assert '"finish_reason":"error"' in rest[-2]
        assert '"code":"generation_cancelled"' in rest[-2]
