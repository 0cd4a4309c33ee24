"""Values of every kind in every field of every route: refused as the dialect does it, or answered."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serving import Server, get, post, serve_in_process

pytestmark = pytest.mark.model

# As they stand in JSON: some of them no writer of it would write.
VALUES = (
    '""',
    "0",
    "-1",
    "1.5",
    "9223372036854775808",
    "1e308",
    "1e999",
    "NaN",
    "true",
    '"x"',
    '"\\u0000"',
    '"\\ud800"',
    '"\U0001f642"',
    "[]",
    "{}",
    "[null]",
    '[[1, "a"], {}]',
    '{"": {"a": []}}',
    "[" * 100 + "]" * 100,
)
# What ends or replaces the model of the others, or loads another one.
LEFT_OUT = {
    "/models/load",
    "/v1/embeddings/init",
    "/v1/generation/init",
    "/v1/generation/params",
    "/v1/generation/shutdown",
}
STATUSES = {200, 400, 404, 409, 413, 501}


@pytest.fixture(scope="module")
def tiny(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("wrong")
    env = {"LLMSERVE_CONTEXT_LENGTH": "64", "SESSIONS_DIR": str(folder)}
    with serve_in_process(folder, tiny_model, env=env) as server:
        started = post(server.port, "/v1/generation/init", {"modelPath": str(tiny_model)})
        assert started.status == 200, started.text
        yield server
        assert "Traceback" not in server.log


def bodies(document: Any, model: Path) -> Iterator[tuple[str, dict[str, Any], list[str]]]:
    """Routes that take JSON, with a body that each of them answers and the names of its fields."""
    base: dict[str, Any] = {
        "model": model.stem,
        "prompt": "sea",
        "input": "sea",
        "messages": [{"role": "user", "content": "sea"}],
        "userPrompt": "sea",
        "content": "sea",
        "tokens": [1],
        "path": "a.session",
        "modelPath": str(model),
        **dict.fromkeys(("max_tokens", "max_output_tokens", "max_new_tokens", "n_predict", "maxTokens"), 2),
    }
    for path, methods in document["paths"].items():
        if "requestBody" not in methods.get("post", {}) or path in LEFT_OUT:
            continue
        schema = methods["post"]["requestBody"]["content"]["application/json"]["schema"]
        fields = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]["properties"]
        body = {name: value for name, value in base.items() if name in fields}
        if path == "/completions":
            body["model"] = str(model)
        yield path.replace("{model}", model.stem), body, [*fields, "unknown"]


def test_every_field_of_every_route(tiny: Server, tiny_model: Path) -> None:
    document = get(tiny.port, "/openapi.json").json
    routes = list(bodies(document, tiny_model))
    assert len(routes) > 20
    connection = http.client.HTTPConnection("127.0.0.1", tiny.port, timeout=120)
    for path, body, fields in routes:
        for name in fields:
            for value in VALUES:
                text = json.dumps({**body, name: "@"}).replace('"@"', value)
                connection.request("POST", path, text.encode())
                response = connection.getresponse()
                check(f"{path} {name}={value[:40]}", response.status, response.read())
    connection.close()
    assert tiny.states() == ["ready"]


def check(what: str, status: int, answer: bytes) -> None:
    assert status in STATUSES, (what, status, answer)
    if status == 200:
        return
    refused = json.loads(answer)
    assert "error" in refused, (what, answer)
    assert len(answer) < 1500, what
    for secret in (b"Traceback", b"internal error", str(Path.home()).encode()):
        assert secret not in answer, (what, answer)
