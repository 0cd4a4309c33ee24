"""`POST /models/load`: progress, sharing, failures, paths."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from serving import (
    Answer,
    RawStream,
    Server,
    ServerProcess,
    events,
    get,
    post,
    serve_in_process,
    serve_with_uvicorn,
    wait_until,
)

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def empty_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that was started without a model, by uvicorn."""
    with serve_with_uvicorn(tmp_path_factory.mktemp("uvicorn")) as running:
        running.wait_until_listening()
        yield running


def load(server: Server, path: object) -> Answer:
    return post(server.port, "/models/load", {"path": str(path)})


def progress_of(answer: Answer) -> list[float]:
    assert answer.status == 200
    lines = events(answer.text)
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: "))["progress"] for line in lines[:-1]]


def states(server: ServerProcess) -> dict[str, str]:
    answer = get(server.port, "/health")
    assert answer.status == 200
    return {model["id"]: model["state"] for model in answer.json["models"]}


def test_a_load_tells_its_progress_and_a_second_answers_at_once(
    empty_server: ServerProcess, model_path: Path
) -> None:
    answer = load(empty_server, model_path)
    shown = progress_of(answer)
    assert shown[0] > 0
    assert shown[-1] == 1
    assert shown == sorted(set(shown))
    assert all(round(value * 100) == pytest.approx(value * 100) for value in shown)
    assert answer.text.endswith('data: {"progress":1}\n\ndata: [DONE]\n\n')
    assert load(empty_server, model_path).text == 'data: {"progress":1}\n\ndata: [DONE]\n\n'
    assert states(empty_server)[model_path.stem] == "ready"


def test_callers_of_one_path_share_a_load_and_all_see_its_progress(
    empty_server: ServerProcess, model_path: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "shared-load.gguf"
    shutil.copy(model_path, copy)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: load(empty_server, copy), range(4)))
    for answer in answers:
        assert progress_of(answer)[-1] == 1
    assert list(states(empty_server)).count("shared-load") == 1


def test_the_last_one_to_leave_cancels_a_load(
    empty_server: ServerProcess, model_path: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "left-alone.gguf"
    shutil.copy(model_path, copy)
    with RawStream(empty_server.port, "/models/load", {"path": str(copy)}) as first:
        first.read_head()
        with RawStream(empty_server.port, "/models/load", {"path": str(copy)}) as second:
            second.read_head()
            next(second.lines())
        # One has left, one waits: the load goes on.
        assert next(first.lines()).startswith("data: ")
    wait_until(lambda: states(empty_server).get("left-alone") in (None, "ready"))
    # Whatever was faster, the file can be loaded now.
    assert progress_of(load(empty_server, copy))[-1] == 1


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("missing.gguf", None, "no such file"),
        ("empty.gguf", b"", ""),
        ("text.gguf", b"hello world, this is no model", "GGUF"),
    ],
)
def test_a_load_that_fails_ends_with_an_error_event_and_leaves_others_alone(
    empty_server: ServerProcess,
    model_path: Path,
    tmp_path: Path,
    name: str,
    content: bytes | None,
    reason: str,
) -> None:
    load(empty_server, model_path)
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    for _ in range(2):  # it can be tried again
        answer = load(empty_server, path)
        assert answer.status == 200
        *_, kind, data = events(answer.text)
        assert kind == "event: error"
        message = json.loads(data.removeprefix("data: "))
        assert isinstance(message, str)
        assert reason in message
        assert str(tmp_path) not in message
        assert "[DONE]" not in answer.text
        assert states(empty_server)[path.stem] == "failed"
    body = {"model": str(model_path), "prompt": "x", "max_tokens": 2}
    assert post(empty_server.port, "/completions", body).status == 200
    body["model"] = str(path)
    assert post(empty_server.port, "/completions", body).status == 400


def test_a_load_that_failed_works_once_the_file_is_right(
    empty_server: ServerProcess, tiny_model: Path, tmp_path: Path
) -> None:
    path = tmp_path / "late.gguf"
    assert "event: error" in load(empty_server, path).text
    shutil.copy(tiny_model, path)
    assert progress_of(load(empty_server, path))[-1] == 1
    assert states(empty_server)["late"] == "ready"


def test_two_models_answer_at_the_same_time(
    empty_server: ServerProcess, model_path: Path, tiny_model: Path
) -> None:
    for path in (model_path, tiny_model):
        assert progress_of(load(empty_server, path))[-1] == 1

    def ask(path: Path) -> str:
        body = {"model": str(path), "prompt": "the sea", "max_tokens": 12}
        message: str = post(empty_server.port, "/completions", body).json["message"]
        return message

    alone = [ask(path) for path in (model_path, tiny_model)]
    assert alone[0] != alone[1]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(ask, [model_path, tiny_model] * 2))
    assert together == alone * 2


def test_two_files_of_one_name_have_ids_of_their_own(
    empty_server: ServerProcess, tiny_model: Path, tmp_path: Path
) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        shutil.copy(tiny_model, tmp_path / folder / "twin.gguf")
        load(empty_server, tmp_path / folder / "twin.gguf")
    assert {"twin", "twin-2"} <= set(states(empty_server))


@pytest.mark.parametrize("body", [{}, {"path": None}, {"path": ""}])
def test_a_missing_path_is_refused_as_the_contract_says(empty_server: ServerProcess, body: object) -> None:
    answer = post(empty_server.port, "/models/load", body)
    assert answer.status == 400
    assert answer.json == {"error": "path is required"}


def test_a_path_of_a_wrong_type_and_unknown_fields(empty_server: ServerProcess, tiny_model: Path) -> None:
    answer = post(empty_server.port, "/models/load", {"path": 5})
    assert (answer.status, answer.json) == (400, {"error": "path must be a string, got the number 5"})
    answer = post(empty_server.port, "/models/load", {"path": str(tiny_model), "backend": 1})
    assert answer.header("x-llmserve-ignored") == "backend"


def test_with_models_dir_paths_must_resolve_inside(
    tiny_model: Path, model_path: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    shutil.copy(tiny_model, folder / "inside.gguf")
    (folder / "link.gguf").symlink_to(tiny_model)
    with serve_in_process(tmp_path, tiny_model, env={"MODELS_DIR": str(folder)}) as server:
        assert progress_of(load(server, "inside.gguf"))[-1] == 1
        for path in ("link.gguf", "../x.gguf", str(tiny_model), "/etc/passwd", "a\0b"):
            answer = load(server, path)
            assert (answer.status, answer.json) == (400, {"error": "path is not allowed"})
        # What the operator loaded may be named.
        for name in ("inside.gguf", str(tiny_model)):
            body = {"model": name, "prompt": "sea", "max_tokens": 1}
            assert post(server.port, "/completions", body).status == 200


def test_health_tells_of_a_load_while_it_runs(model_path: Path, tmp_path: Path) -> None:
    with serve_with_uvicorn(tmp_path, env={"LLMSERVE_MODEL": str(model_path)}) as server:
        server.wait_until_listening()
        seen: list[str] = []

        def is_ready() -> bool:
            answer = get(server.port, "/health")
            assert answer.status == 200
            assert answer.json["status"] == "ok"
            (model,) = answer.json["models"]
            assert model["id"] == model_path.stem
            seen.append(model["state"])
            return seen[-1] == "ready"

        wait_until(is_ready)
        assert set(seen) <= {"loading", "ready"}


def test_a_first_model_that_fails_ends_llmserve_serve_but_not_uvicorn(tmp_path: Path) -> None:
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"no model")
    with serve_with_uvicorn(tmp_path, env={"LLMSERVE_MODEL": str(bad)}) as server:
        server.wait_until_listening()
        wait_until(lambda: states(server) == {"bad": "failed"})
        assert get(server.port, "/health").json["status"] == "ok"


def test_a_path_writes_no_line_of_its_own_into_the_log(empty_server: ServerProcess) -> None:
    answer = load(empty_server, "no\nWARNING forged\x1b[2J.gguf")
    assert events(answer.text)[-2] == "event: error"
    empty_server.wait_for_log("forged")
    lines = [line for line in empty_server.log.splitlines() if "forged" in line]
    assert len(lines) == 1
    assert "no\\nWARNING forged\\x1b[2J.gguf failed: " in lines[0]
    assert "\nNo such file" not in empty_server.log
