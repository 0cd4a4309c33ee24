"""The catalogue over HTTP, routes that are not served, and errors by prefix, of real server processes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from gguf import GGUFValueType
from openapi_spec_validator import OpenAPIV31SpecValidator

from changed_models import write_changed
from llmserve.server.models import registry
from serving import Server, get, post, read_metrics, serve_in_process, serve_with_uvicorn, wait_until
from serving.process import serve_catalogue

ANTHROPIC = {"anthropic-version": "2023-06-01"}


@pytest.fixture(scope="module")
def listing(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a folder of models of which none is loaded."""
    folder = tmp_path_factory.mktemp("catalogue")
    models = folder / "models"
    (models / "Org").mkdir(parents=True)
    shutil.copy(tiny_model, models / "Org" / "Name.gguf")
    (models / "broken.gguf").write_bytes(b"no model")
    shutil.copy(tiny_model.with_name("lora.gguf"), models / "Org" / "Adapter.gguf")
    projector = {"general.architecture": (GGUFValueType.STRING, "clip")}
    write_changed(tiny_model, models / "vision.gguf", projector)
    with serve_in_process(folder, env={"MODELS_DIR": str(models)}) as server:
        yield server


def test_one_list_has_both_shapes(listing: Server) -> None:
    listed = get(listing.port, "/v1/models").json
    assert listed["object"] == "list"
    assert [model["id"] for model in listed["data"]] == ["broken", "Org/Name"]
    for model in listed["data"]:
        assert (model["object"], model["owned_by"]) == ("model", "llmserve")
        assert model["created"] > 1_000_000_000
    assert [model["name"] for model in listed["models"]] == ["broken", "Org/Name"]
    for model in listed["models"]:
        assert (model["loaded"], model["state"], model["last_error"]) == (False, "available", None)
        assert (model["inputs"], model["outputs"]) == (["text"], ["text"])
        assert (model["context_length"], model["max_sequence_length"]) == (2048, 2048)
    assert str(listing.folder) not in json.dumps(listed)


@pytest.mark.parametrize("name", ["Org/Name", "Org%2FName", "Org__Name"])
def test_one_model_has_the_fields_of_both(listing: Server, name: str) -> None:
    model = get(listing.port, f"/v1/models/{name}").json
    assert (model["id"], model["name"]) == ("Org/Name", "Org/Name")
    assert (model["object"], model["state"]) == ("model", "available")


@pytest.mark.parametrize("name", ["Org", "Org/Name/", "", "org/name", "%00", "x" * 5000])
def test_unknown_ids_are_404(listing: Server, name: str) -> None:
    answer = get(listing.port, f"/v1/models/{name}")
    assert answer.status == 404
    error = answer.json["error"]
    assert (error["code"], error["param"]) == ("model_not_found", "model")
    assert len(answer.body) < 500


def test_a_model_that_was_loaded_by_path_shows_as_loaded(listing: Server) -> None:
    post(listing.port, "/models/load", {"path": "Org/Name.gguf"})
    model = get(listing.port, "/v1/models/Org/Name").json
    assert (model["loaded"], model["state"]) == (True, "loaded")


def states(server: Server) -> dict[str, str]:
    return {model["name"]: model["state"] for model in get(server.port, "/v1/models").json["models"]}


@pytest.mark.parametrize("by_path", [True, False])
def test_a_model_that_was_loaded_can_be_given_back(listing: Server, tiny_model: Path, by_path: bool) -> None:
    # A copy has an id of its own.
    folder = listing.folder / "models"
    shutil.copy(tiny_model, folder / "lent.gguf")
    wait_until(lambda: "lent" in states(listing))
    body = {"model": "lent.gguf" if by_path else "lent"}
    answer = post(listing.port, "/models/unload", {"model": "lent"})
    assert (answer.status, answer.json) == (200, {"success": True})
    for _ in range(2):
        post(listing.port, "/models/load", {"path": "lent.gguf"})
        assert states(listing)["lent"] == "loaded"
        answer = post(listing.port, "/models/unload", {**body, "force": 1})
        assert (answer.status, answer.json) == (200, {"success": True})
        assert answer.header("x-llmserve-ignored") == "force"
        assert states(listing)["lent"] == "available"
    # Twice is once.
    assert post(listing.port, "/models/unload", body).json == {"success": True}
    asked = {"model": "lent.gguf", "prompt": "x", "max_tokens": 1}
    assert post(listing.port, "/completions", asked).status == 400
    (folder / "lent.gguf").unlink()
    wait_until(lambda: "lent" not in states(listing))


def test_what_others_use_is_not_given_back(listing: Server) -> None:
    post(listing.port, "/v1/generation/init", {"modelPath": "Org/Name.gguf"})
    post(listing.port, "/models/load", {"path": "Org/Name.gguf"})
    kept = post(listing.port, "/models/unload", {"model": "Org/Name"})
    assert (kept.status, kept.json["error"]["code"]) == (409, "model_kept")
    assert states(listing)["Org/Name"] == "loaded"
    post(listing.port, "/v1/generation/shutdown", {})
    assert states(listing)["Org/Name"] == "available"


@pytest.mark.parametrize("by_path", [True, False])
def test_the_first_model_is_not_given_back(tiny_model: Path, tmp_path: Path, by_path: bool) -> None:
    with serve_in_process(tmp_path, tiny_model) as server:
        name = str(tiny_model) if by_path else tiny_model.stem
        kept = post(server.port, "/models/unload", {"model": name})
        assert kept.status == 409
        assert kept.json["error"]["message"] == (
            "the model stays loaded: the server was started with it, or /v1/generation/init uses it"
        )
        assert states(server) == {tiny_model.stem: "loaded"}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"model": "nothing"}, 404),
        ({"model": "a\0b"}, 404),
        ({}, 400),
        ({"model": 5}, 400),
        ({"model": ""}, 400),
    ],
)
def test_what_cannot_be_given_back(listing: Server, body: object, status: int) -> None:
    answer = post(listing.port, "/models/unload", body)
    assert answer.status == status
    assert answer.json["error"]["param"] == "model"


def test_models_of_one_file_are_told_apart(listing: Server) -> None:
    def of_file(name: str) -> dict[str, object]:
        data = get(listing.port, "/v1/models").json["data"]
        return {model["id"]: model["options"] for model in data if model["id"].startswith(name)}

    # The catalogue's id keeps its options.
    post(listing.port, "/v1/generation/params", {"contextLength": 128})
    post(listing.port, "/v1/generation/init", {"modelPath": "Org/Name.gguf"})
    post(listing.port, "/models/load", {"path": "Org/Name.gguf"})
    assert of_file("Org/Name") == {"Org/Name": {}}
    (other,) = of_file("Name")
    assert of_file("Name") == {other: {"context_length": 128}}
    body = {"model": other, "prompt": "x", "max_tokens": 1}
    assert post(listing.port, "/v1/completions", body).status == 200
    # Other options make another engine under the same id.
    post(listing.port, "/v1/generation/params", {"contextLength": 256})
    assert of_file("Name")[other] == {"context_length": 256}
    assert get(listing.port, f"/v1/models/{other}").json["options"] == {"context_length": 256}
    post(listing.port, "/v1/generation/shutdown", {})


def test_anthropics_clients_get_its_shape(listing: Server) -> None:
    version = {"anthropic-version": "2023-06-01"}
    listed = get(listing.port, "/v1/models?limit=1000", headers=version).json
    ids = [model["id"] for model in get(listing.port, "/v1/models").json["data"]]
    assert [model["id"] for model in listed["data"]] == ids
    assert (listed["has_more"], listed["first_id"], listed["last_id"]) == (False, ids[0], ids[-1])
    first = get(listing.port, "/v1/models?limit=1", headers=version).json
    assert (first["has_more"], first["first_id"], first["last_id"]) == (True, ids[0], ids[0])
    rest = get(listing.port, f"/v1/models?after_id={ids[0]}", headers=version).json
    assert ([model["id"] for model in rest["data"]], rest["has_more"]) == (ids[1:], False)
    before = get(listing.port, f"/v1/models?before_id={ids[-1]}&limit=1", headers=version).json
    assert [model["id"] for model in before["data"]] == [ids[-2]]
    assert get(listing.port, "/v1/models?after_id=other", headers=version).status == 400
    model = listed["data"][0]
    assert (model["type"], model["display_name"], model["lifecycle"]) == ("model", ids[0], "active")
    assert datetime.fromisoformat(model["created_at"]).year >= 2020
    assert get(listing.port, f"/v1/models/{ids[0]}", headers=version).json == model


@pytest.mark.parametrize(
    ("path", "status", "kind", "part"),
    [
        ("?limit=0", 400, "invalid_request_error", "limit must be an integer from 1 to 1000"),
        ("?after_id=none", 400, "invalid_request_error", "after_id must be the id of a model"),
        ("?after_id=a&before_id=b", 400, "invalid_request_error", "before_id cannot be used with after_id"),
        ("/none", 404, "not_found_error", "unknown model 'none'"),
    ],
)
def test_anthropics_clients_get_errors_of_its_shape(
    listing: Server, path: str, status: int, kind: str, part: str
) -> None:
    answer = get(listing.port, f"/v1/models{path}", headers=ANTHROPIC)
    assert (answer.status, answer.json["type"], answer.json["error"]["type"]) == (status, "error", kind)
    assert part in answer.json["error"]["message"]
    assert answer.json["request_id"] == answer.header("request-id")


@pytest.mark.parametrize(
    ("name", "reason"),
    [("Org/Adapter", "a LoRA adapter"), ("vision", "a projector of images or audio")],
)
def test_files_that_are_only_parts_of_models_are_not_listed(listing: Server, name: str, reason: str) -> None:
    listed = get(listing.port, "/v1/models").json["data"] + get(listing.port, "/api/tags").json["models"]
    assert not [model for model in listed if name in (model.get("id"), model.get("name"))]
    asked = post(listing.port, "/v1/completions", {"model": name, "prompt": "a"})
    error = asked.json["error"]
    assert (asked.status, error["code"]) == (404, "model_not_found")
    assert f"{name!r} is not a model, but {reason}" in error["message"]
    shown = post(listing.port, "/api/show", {"model": f"{name}:latest"})
    assert (shown.status, reason in shown.json["error"]) == (404, True)


def test_health_forgets_a_failed_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "FAILURE_S", 1.0)
    (tmp_path / "broken.gguf").write_bytes(b"no model")

    def states() -> list[str]:
        return [model["state"] for model in get(server.port, "/health").json["models"]]

    with serve_in_process(tmp_path, env={"MODELS_DIR": str(tmp_path)}) as server:
        assert post(server.port, "/models/load", {"path": "broken.gguf"}).text.count("event: error") == 1
        assert states() == ["failed"]
        wait_until(lambda: not states())
    first = {"LLMSERVE_MODEL": str(tmp_path / "broken.gguf"), "MODELS_DIR": str(tmp_path)}
    with serve_in_process(tmp_path, env=first) as server:
        wait_until(lambda: states() == ["failed"])
        assert post(server.port, "/models/load", {"path": "missing.gguf"}).text.count("event: error") == 1
        wait_until(lambda: len(states()) == 1)
        assert states() == ["failed"]
        assert get(server.port, "/ready").json["status"] == "failed"


def test_the_document_describes_both_routes(listing: Server) -> None:
    document = get(listing.port, "/openapi.json").json
    OpenAPIV31SpecValidator(document).validate()
    assert "/v1/models" in document["paths"]
    parameter, version = document["paths"]["/v1/models/{model_id}"]["get"]["parameters"]
    assert (parameter["name"], parameter["in"], parameter["required"]) == ("model_id", "path", True)
    assert (version["name"], version["in"], version["required"]) == ("anthropic-version", "header", False)
    assert "/v1/images" not in document["paths"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/images/generations"),
        ("POST", "/v1/audio/transcriptions"),
        ("POST", "/v1/moderations"),
        ("GET", "/v1/fine_tuning/jobs"),
        ("GET", "/v1/files"),
        ("DELETE", "/v1/files/abc"),
        ("POST", "/v1/batches"),
        ("POST", "/v1/assistants"),
        ("GET", "/v1/threads/t/messages"),
        ("POST", "/props"),
        ("POST", "/lora-adapters"),
    ],
)
def test_what_is_not_supported_says_so(listing: Server, method: str, path: str) -> None:
    answer = get(listing.port, path, method=method)
    assert answer.status == 501
    error = answer.json["error"]
    assert error["code"] == "not_supported"
    assert error["message"].startswith("not supported: ")
    # OpenAI's clients would ask twice more.
    assert answer.header("x-should-retry") == "false"


@pytest.mark.parametrize(
    ("path", "is_openai"),
    [("/v1/nothing", True), ("/v1/generation/nothing", False), ("/nothing", False), ("/v1", False)],
)
def test_unknown_routes_answer_in_the_shape_of_their_prefix(
    listing: Server, path: str, is_openai: bool
) -> None:
    answer = get(listing.port, path)
    assert answer.status == 404
    if is_openai:
        assert answer.json["error"]["code"] == "route_not_found"
    else:
        assert answer.json == {"error": "no such route"}


def test_unknown_methods_answer_in_the_shape_of_their_prefix(listing: Server) -> None:
    answer = get(listing.port, "/v1/models", method="DELETE")
    assert (answer.status, answer.header("allow")) == (405, "GET, HEAD")
    assert answer.json["error"]["code"] == "method_not_allowed"
    answer = get(listing.port, "/v1/generation/init")
    assert (answer.status, answer.header("allow")) == (405, "POST")
    assert isinstance(answer.json["error"], str)


def test_metrics_name_routes_without_their_parameters(listing: Server) -> None:
    get(listing.port, "/v1/models/any/thing")
    get(listing.port, "/v1/files/any/thing")
    samples = "\n".join(read_metrics(listing.port))
    assert 'route="/v1/models/{model_id}",method="GET",status="404"' in samples
    assert 'route="/v1/files/{rest}",method="GET",status="501"' in samples
    assert "thing" not in samples


def test_a_catalogue_file_serves_without_a_first_model(tiny_model: Path, tmp_path: Path) -> None:
    file = tmp_path / "models.toml"
    file.write_text(f'[[models]]\nid = "Org/Name"\npath = "{tiny_model}"\nmax_new_tokens = 7')
    with serve_catalogue(tmp_path, file) as server:
        server.wait_for_log("serves the models of its catalogue", f"http://127.0.0.1:{server.port}")
        assert get(server.port, "/health").json == {"status": "ok", "models": []}
        (model,) = get(server.port, "/v1/models").json["models"]
        assert (model["name"], model["max_new_tokens"]) == ("Org/Name", 7)


def test_a_wrong_catalogue_ends_the_start_with_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "models.toml"
    file.write_text('[[models]]\nid = "a"\npath = "b"\ntreads = 5')
    with serve_catalogue(tmp_path, file) as server:
        assert server.wait() == 2
        assert server.log == (
            f"llmserve: {file}: catalogue entry 'a': the key 'treads' is unknown\n"
            "hint: did you mean threads?\n"
        )
    with serve_with_uvicorn(tmp_path, env={"LLMSERVE_CATALOGUE": str(file)}) as server:
        assert server.wait() == 3
        assert "the key 'treads' is unknown" in server.log


def test_no_get_loads_a_model(tiny_model: Path, tmp_path: Path) -> None:
    models = tmp_path / "models" / "Org"
    models.mkdir(parents=True)
    shutil.copy(tiny_model, models / "Name.gguf")
    env = {"MODELS_DIR": str(models.parent), "LLMSERVE_LOAD_WAIT_S": "120"}
    with serve_in_process(tmp_path, env=env) as server:
        document = get(server.port, "/openapi.json").json
        paths = [path for path, methods in document["paths"].items() if "get" in methods]
        assert "/props" in paths
        for path in paths:
            for method in ("GET", "HEAD"):
                get(server.port, path.replace("{model_id}", "Org/Name") + "?model=Org/Name", method=method)
        assert get(server.port, "/health").json["models"] == []

        for query in ("", "?model=Org/Name", "?model=Org__Name"):
            answer = get(server.port, f"/props{query}")
            assert answer.status == 409
            error = answer.json["error"]
            assert (error["code"], error["param"]) == ("model_not_loaded", "model")
            assert "'Org/Name' is not loaded" in error["message"]
        assert get(server.port, "/props?model=x").status == 404

        assert post(server.port, "/tokenize", {"model": "Org/Name", "content": "sea"}).status == 200
        assert get(server.port, "/props?model=Org/Name").json["model_alias"] == "Org/Name"


def test_the_properties_of_one_model_do_not_cost_another_its_memory(tiny_model: Path, tmp_path: Path) -> None:
    models = tmp_path / "models"
    models.mkdir()
    for name in ("a.gguf", "b.gguf"):
        shutil.copy(tiny_model, models / name)
    # The weights of one, and hardly more.
    memory = str(tiny_model.stat().st_size + 1)
    env = {"MODELS_DIR": str(models), "LLMSERVE_LOAD_WAIT_S": "120", "LLMSERVE_MODEL_MEMORY_BYTES": memory}
    with serve_in_process(tmp_path, env=env) as server:
        assert post(server.port, "/tokenize", {"model": "a", "content": "sea"}).status == 200
        assert get(server.port, "/props?model=b").status == 409
        assert [model["id"] for model in get(server.port, "/health").json["models"]] == ["a"]
        assert get(server.port, "/props?model=a").status == 200
