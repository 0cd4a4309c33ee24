"""Health, the OpenAPI document, the index, mounting."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from serving import RawStream, ServerProcess, get, post, read_metrics, serve_with_uvicorn, wait_until
from serving.process import environment

pytestmark = pytest.mark.model

# What the document of the original llamacpp-server promises: types of request fields by schema.
PROMISED: dict[str, dict[str, str]] = {
    "LoadModelRequest": {"path": "string"},
    "CompletionRequest": {
        "model": "string",
        "prompt": "string",
        "stream": "boolean",
        "max_tokens": "integer",
        "temperature": "number",
        "top_p": "number",
        "top_k": "integer",
        "options": "#/components/schemas/CompletionOptions",
    },
    "CompletionOptions": {
        "min_p": "number",
        "min_tokens_to_keep": "integer",
        "repetition_penalty": "number",
        "length_penalty": "number",
        "diversity_penalty": "number",
        "no_repeat_ngram_size": "integer",
        "random_seed": "integer",
        "max_kv_size": "integer",
        "prefill_step_size": "integer",
        "kv_bits": "integer",
        "kv_group_size": "integer",
        "quantized_kv_start": "integer",
    },
    "CompletionResponse": {"message": "string", "token": "integer", "tokens": "integer"},
    "ErrorResponse": {"error": "string"},
}
OPERATIONS = {"/health": "health", "/models/load": "loadModel", "/completions": "completions"}


@pytest.fixture(scope="module")
def document(server: ServerProcess) -> dict[str, Any]:
    answer = get(server.port, "/openapi.json")
    assert answer.status == 200
    made: dict[str, Any] = answer.json
    return made


def test_health(server: ServerProcess, model_path: Path) -> None:
    wait_until(lambda: server.states() == ["ready"])
    answer = get(server.port, "/health")
    assert answer.status == 200
    assert answer.json == {
        "status": "ok",
        "models": [
            {
                "id": model_path.stem,
                "state": "ready",
                "has_draft_head": False,
                "backend": "CPU",
                "num_gpu_layers": 0,
                "memory_bytes": answer.json["models"][0]["memory_bytes"],
            }
        ],
    }
    assert answer.json["models"][0]["memory_bytes"] > 0.9 * model_path.stat().st_size


def test_health_says_busy_and_answers_during_a_long_prompt(server: ServerProcess, model_path: Path) -> None:
    body = {"model": str(model_path), "prompt": "word " * 1800, "max_tokens": 5, "stream": True}
    with RawStream(server.port, "/completions", body) as stream:
        assert stream.read_head()[0] == 200
        assert server.states() == ["busy"]
    wait_until(lambda: server.states() == ["ready"])


def test_the_document_is_valid_openapi(document: dict[str, Any]) -> None:
    OpenAPIV31SpecValidator(document).validate()


def test_the_document_keeps_what_the_original_promises(document: dict[str, Any]) -> None:
    for path, operation_id in OPERATIONS.items():
        method = "get" if path == "/health" else "post"
        assert document["paths"][path][method]["operationId"] == operation_id
    schemas = document["components"]["schemas"]
    for name, fields in PROMISED.items():
        properties = schemas[name]["properties"]
        assert {field: p.get("type") or p["$ref"] for field, p in properties.items()} == fields
    assert schemas["LoadModelRequest"]["required"] == ["path"]
    assert schemas["CompletionRequest"]["required"] == ["model", "prompt"]


def test_every_described_route_is_served_and_every_status_described(
    server: ServerProcess, document: dict[str, Any]
) -> None:
    for path, methods in document["paths"].items():
        for method in methods:
            is_post = method == "post"
            answer = (
                post(server.port, path, b"{") if is_post else get(server.port, path, method=method.upper())
            )
            assert str(answer.status) in methods[method]["responses"]
            media = (answer.header("content-type") or "").split(";")[0]
            assert media in methods[method]["responses"][str(answer.status)]["content"]


def test_the_index_leads_on(server: ServerProcess) -> None:
    links = get(server.port, "/", headers={"Accept": "application/json"}).json
    for name in ("docs", "openapi", "health"):
        assert get(server.port, links[name]).status == 200


def test_metrics_have_the_right_media_type(server: ServerProcess, model_path: Path) -> None:
    answer = get(server.port, "/metrics")
    assert answer.header("content-type") == "text/plain; version=0.0.4; charset=utf-8"
    samples = read_metrics(server.port)
    assert samples[f'llmserve_model_state{{model="{model_path.stem}",state="ready"}}'] == 1
    assert samples[f'llmserve_slots{{model="{model_path.stem}"}}'] == 4


def test_mounted_below_a_prefix_of_another_application(tiny_model: Path, tmp_path: Path) -> None:
    with serve_with_uvicorn(tmp_path, app="serving.mounted:below_a_prefix") as server:
        server.wait_until_listening()
        assert get(server.port, "/llm/health").json == {"status": "ok", "models": []}
        answer = post(server.port, "/llm/models/load", {"path": str(tiny_model)})
        assert answer.text.endswith("data: [DONE]\n\n")
        body = {"model": str(tiny_model), "prompt": "sea", "max_tokens": 3}
        assert post(server.port, "/llm/completions", body).header("x-stamp") == "yes"
        assert get(server.port, "/llm/openapi.json").json["servers"][0]["url"] == "/llm"
        assert get(server.port, "/llm/page/docs.js").status == 200
        answer = post(server.port, "/llm/completions", {**body, "model": "x"})
        assert answer.json == {"error": "unknown model: model must be the path of a loaded model"}
        assert answer.status == 400
        assert get(server.port, "/llm/nope").status == 404


def test_wrong_settings_end_the_application_that_it_is_mounted_into() -> None:
    program = "import asyncio, llmserve.app; asyncio.run(llmserve.app.lifespan(None).__aenter__())"
    env = environment({"LLMSERVE_MAX_SESSIONS": "many"})
    made = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
    assert made.returncode == 1
    assert "LLMSERVE_MAX_SESSIONS" in made.stderr.splitlines()[-1]
