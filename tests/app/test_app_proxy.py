"""Behind a proxy on the same machine nobody is local, in any dialect."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from serving import Server, free_port, get, post, serve_in_process
from serving.grpc_client import connect, failure

pytestmark = pytest.mark.model

PROXIED = [
    {"X-Forwarded-For": "192.0.2.1"},
    {"X-Forwarded-Proto": "https"},
    {"X-Real-IP": "192.0.2.1"},
    {"Forwarded": "for=192.0.2.1"},
    {"Via": "1.1 proxy"},
]


@pytest.fixture(scope="module")
def grpc_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def bare(grpc_port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server without folders for what clients name."""
    env = {"LLMSERVE_GRPC_PORT": str(grpc_port)}
    with serve_in_process(tmp_path_factory.mktemp("bare"), env=env) as server:
        yield server


@pytest.mark.parametrize("headers", PROXIED)
@pytest.mark.parametrize(
    ("route", "field", "variable"),
    [
        ("/models/load", "path", "MODELS_DIR"),
        ("/v1/generation/init", "modelPath", "MODELS_DIR"),
        ("/v1/generation/mtp/init", "modelPath", "MODELS_DIR"),
        ("/v1/generation/session/save", "path", "SESSIONS_DIR"),
        ("/v1/generation/session/load", "path", "SESSIONS_DIR"),
    ],
)
def test_paths_are_not_taken_through_a_proxy(
    bare: Server, tiny_model: Path, headers: dict[str, str], route: str, field: str, variable: str
) -> None:
    answer = post(bare.port, route, {field: str(tiny_model)}, headers=headers)
    assert answer.status == 403
    assert variable in answer.text
    assert get(bare.port, "/health").json["models"] == []


@pytest.mark.parametrize("headers", PROXIED)
def test_nor_over_grpc(bare: Server, grpc_port: int, tiny_model: Path, headers: dict[str, str]) -> None:
    metadata = [(name.lower(), value) for name, value in headers.items()]
    with connect(grpc_port) as client:
        refused = failure(client.load(tiny_model, metadata=metadata))
    assert refused.code.name == "PERMISSION_DENIED"
    assert "MODELS_DIR" in refused.details
    assert get(bare.port, "/health").json["models"] == []


def test_inside_the_folder_they_are(tiny_model: Path, tmp_path: Path) -> None:
    with serve_in_process(tmp_path, env={"MODELS_DIR": str(tiny_model.parent)}) as server:
        answer = post(server.port, "/models/load", {"path": tiny_model.name}, headers=PROXIED[0])
        assert answer.text.endswith("data: [DONE]\n\n")
