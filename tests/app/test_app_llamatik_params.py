"""`params` and `init`: merging, reading back, reloading, replacing, giving up."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from serving import (
    Llamatik,
    Server,
    ServerProcess,
    get,
    post,
    serve_in_process,
    serve_with_uvicorn,
    wait_until,
)
from serving.llamatik import joined, parsed, rest

GREEDY = {"temperature": 0, "repeatPenalty": 1}


@pytest.fixture
def running(tiny_model: Path, tmp_path: Path) -> Iterator[Server]:
    """A server of each test's own: the parameters are one set for all."""
    with serve_in_process(tmp_path, tiny_model) as running:
        yield running


@pytest.fixture
def api(running: Server, tiny_model: Path) -> Llamatik:
    api = Llamatik(running)
    api.init(tiny_model)
    return api


def refused(api: Llamatik, body: dict[str, Any]) -> str:
    before = api.get("params").json
    answer = api.post("params", body)
    assert answer.status == 400
    assert api.get("params").json == before
    error: str = answer.json["error"]
    return error


def test_sampling_fields_merge_and_act_on_the_next_request(api: Llamatik) -> None:
    before = api.get("params").json
    api.ok("params", {"temperature": 0, "maxTokens": 3, "stop": ["zzz"]})
    api.ok("params", {"maxTokens": 5, "repeatPenalty": None, "seed": 12})
    after = api.get("params").json
    assert after == {**before, "temperature": 0, "maxTokens": 5, "seed": 12, "stop": ["zzz"]}
    answer = api.post("generate", {"prompt": "Once upon a time"})
    assert answer.header("x-llmserve-seed") == "12"
    assert answer.json["usage"]["completionTokens"] == 5
    assert api.text("generate", prompt="Once upon a time") == answer.json["text"]
    # For one request only.
    assert api.whole("generate", prompt="Once upon a time", maxTokens=2)["usage"]["completionTokens"] == 2
    assert api.get("params").json == after
    api.ok("params", {"seed": -1, "stop": []})
    assert api.get("params").json == {**after, "seed": -1, "stop": []}


def test_nothing_changes_where_one_field_is_wrong(api: Llamatik) -> None:
    assert refused(api, {"temperature": 0.1, "topP": 1.5}) == "topP must be at most 1, got 1.5"
    assert refused(api, {"maxTokens": 0}) == "maxTokens must be at least 1, got 0"
    assert refused(api, {"temperature": 0.1, "repeatPenalty": 0}).startswith("repeatPenalty: ")
    assert refused(api, {"contextLength": -1, "temperature": 0.1}).startswith("contextLength must be at")
    assert refused(api, {"useMmap": "yes"}) == "useMmap must be a boolean, got a string"


def test_load_options_are_remembered_before_init(tiny_model: Path, tmp_path: Path) -> None:
    with serve_in_process(tmp_path) as running:
        api = Llamatik(running)
        assert api.get("params").json["contextLength"] == 2048  # the server's own
        api.ok("params", {"contextLength": 300, "gpuLayers": 0})
        assert running.states() == []
        api.init(tiny_model)
        assert api.get("params").json["contextLength"] == 300
        assert api.post("generate", {"prompt": " sea" * 400}).status == 400
        # What apps send that leave the choice to the server.
        api.ok("params", {"contextLength": 0, "numThreads": -1, "batchSize": 0})
        assert api.get("params").json["contextLength"] == 2048
        # The others' routes load it with the server's own options.
        post(running.port, "/models/load", {"path": str(tiny_model)})
        assert running.states() == ["ready", "ready"]


def test_init_shares_the_engine_that_others_have_loaded(api: Llamatik, running: Server) -> None:
    assert running.states() == ["ready"]
    api.ok("params", {"temperature": 0.1})
    assert running.states() == ["ready"]


def test_a_reload_fails_no_running_request_and_keeps_sessions(
    api: Llamatik, running: Server, tiny_model: Path
) -> None:
    story = {"prompt": "Once upon a time", "maxTokens": 800, "sessionId": "story", **GREEDY}
    calm = api.text("generate", prompt="The capital of France is", sessionId="calm", maxTokens=5, **GREEDY)
    with api.open("stream", **story) as stream:
        assert stream.read_head()[0] == 200
        lines = stream.lines()
        first = parsed(next(lines))
        api.ok("params", {"contextLength": 1024, "numThreads": 1, "batchSize": 256})
        shown = api.get("params").json
        assert (shown["contextLength"], shown["batchSize"]) == (1024, 256)
        # A session without a call is there at once; that of the stream waits for its end.
        went_on = api.whole("continue", prompt=" and", sessionId="calm", maxTokens=5, **GREEDY)
        assert went_on["usage"]["promptTokens"] > 10
        made = [first, *rest(lines)]
    assert made[-1]["finishReason"] in ("length", "stop")
    text = joined(made)
    answer = api.whole("continue", prompt=" The end.", sessionId="story", maxTokens=5, **GREEDY)
    usage = made[-1]["usage"]
    assert answer["usage"]["promptTokens"] > usage["promptTokens"] + usage["completionTokens"]
    # The session's text is what the stream gave: together they are one greedy text.
    assert text.startswith(api.text("generate", **{**story, "maxTokens": 20, "sessionId": "x"})[:40])
    assert calm != ""
    # The server's own engine is untouched, the one before is gone.
    assert running.states() == ["ready", "ready"]
    body = {"model": str(tiny_model), "prompt": " sea" * 1500, "max_tokens": 1}
    assert post(running.port, "/completions", body).status == 200


def test_a_reload_that_fails_changes_nothing(api: Llamatik, running: Server) -> None:
    api.text("generate", prompt="Once upon a time", maxTokens=5, **GREEDY)
    # Far more than any machine's memory.
    error = refused(api, {"contextLength": 2**27, "temperature": 0.1})
    assert "the KV cache of 134217728 tokens needs" in error
    assert "lower `contextLength` or" in error
    assert refused(api, {"batchSize": 1}).startswith("batchSize: must be at least")
    answer = api.whole("continue", prompt=" and", maxTokens=5, **GREEDY)
    assert answer["usage"]["cachedTokens"] > 0


def test_the_same_options_do_not_reload(api: Llamatik, running: Server) -> None:
    api.ok("params", {"contextLength": 2048, "numThreads": 1, "gpuLayers": -1, "batchSize": 512})
    assert running.states() == ["ready"]


def test_init_is_idempotent_and_shared(tiny_model: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.gguf"
    shutil.copy(tiny_model, copy)
    with serve_in_process(tmp_path) as running, ThreadPoolExecutor(4) as pool:
        api = Llamatik(running)
        answers = list(pool.map(lambda _: api.post("init", {"modelPath": str(copy)}), range(4)))
        assert [answer.json for answer in answers] == [{"ok": True}] * 4
        assert running.states() == ["ready"]
        api.text("generate", prompt="Once", maxTokens=3, **GREEDY)
        api.init(copy)
        # Nothing was lost.
        assert api.whole("continue", prompt=" upon", maxTokens=1)["usage"]["cachedTokens"] > 0


def test_another_path_is_refused_while_one_is_being_loaded(tiny_model: Path, tmp_path: Path) -> None:
    copy = tmp_path / "slow.gguf"
    shutil.copy(tiny_model, copy)
    with serve_in_process(tmp_path) as running:
        api = Llamatik(running)
        with api.open("init", modelPath=str(copy)) as loading:
            wait_until(lambda: running.states() != [])
            if running.states() == ["loading"]:
                answer = api.post("init", {"modelPath": str(tiny_model)})
                mtp = api.post("mtp/shutdown")
                if running.states() == ["loading"]:
                    assert answer.status == mtp.status == 409
            assert loading.read_head()[0] == 200
        assert api.post("generate", {"prompt": "x", "maxTokens": 1}).status == 200


def test_who_leaves_last_cancels_the_load(tiny_model: Path, tmp_path: Path) -> None:
    copy = tmp_path / "left.gguf"
    shutil.copy(tiny_model, copy)
    with serve_in_process(tmp_path) as running:
        api = Llamatik(running)
        with api.open("init", modelPath=str(copy)):
            wait_until(lambda: running.states() != [])
        wait_until(lambda: running.states() in ([], ["ready"]))
        if running.states() == []:
            assert api.post("generate", {"prompt": "x"}).status == 409
        api.init(copy)
        assert api.post("generate", {"prompt": "x", "maxTokens": 1}).status == 200


def test_shutdown_ends_a_load(tiny_model: Path, tmp_path: Path) -> None:
    copy = tmp_path / "given-up.gguf"
    shutil.copy(tiny_model, copy)
    with serve_in_process(tmp_path) as running:
        api = Llamatik(running)
        with api.open("init", modelPath=str(copy)) as loading:
            wait_until(lambda: running.states() != [])
            api.ok("shutdown")
            assert loading.read_head()[0] in (409, 200)
        wait_until(lambda: running.states() == [])
        assert api.post("generate", {"prompt": "x"}).status == 409


@pytest.mark.model
def test_another_model_replaces_the_first_when_its_requests_end(
    model_path: Path, tiny_model: Path, tmp_path: Path
) -> None:
    with serve_in_process(tmp_path) as running:
        api = Llamatik(running)
        api.init(model_path)
        with api.open("stream", prompt="Once upon a time", maxTokens=150, **GREEDY) as stream:
            stream.read_head()
            lines = stream.lines()
            next(lines)
            api.init(tiny_model)
            assert sorted(running.states()) == ["busy", "ready"]
            assert api.whole("generate", prompt="sea", maxTokens=2)["usage"]["completionTokens"] == 2
            assert rest(lines)[-1]["event"] == "done"
        wait_until(lambda: running.states() == ["ready"])
        # A session belongs to its model: the first one's does not begin the second's.
        assert api.get("model/finetuneType").json == {"finetuneType": None}
        # What fails to load leaves the model that there is.
        assert api.post("init", {"modelPath": str(tmp_path / "no.gguf")}).status == 400
        assert api.post("generate", {"prompt": "sea", "maxTokens": 1}).status == 200


def test_shutdown_lets_running_requests_finish_and_frees_the_model(tiny_model: Path, tmp_path: Path) -> None:
    with serve_in_process(tmp_path) as running:
        api = Llamatik(running)
        api.init(tiny_model)
        with api.open("stream", prompt="Once upon a time", maxTokens=1900, **GREEDY) as stream:
            stream.read_head()
            lines = stream.lines()
            next(lines)
            api.ok("shutdown")
            assert api.post("generate", {"prompt": "x"}).status == 409
            assert rest(lines)[-1]["event"] == "done"
        wait_until(lambda: running.states() == [])
        api.init(tiny_model)
        # The default session went with the model.
        assert api.whole("continue", prompt="Once", maxTokens=1)["usage"]["promptTokens"] == 5  # with BOS
        api.ok("shutdown")
        # It is gone when the answer comes.
        assert running.states() == []


def resident_mb(running: ServerProcess) -> float:
    status = Path(f"/proc/{running.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


@pytest.mark.model
def test_shutdown_gives_the_memory_back(model_path: Path, tmp_path: Path) -> None:
    with serve_with_uvicorn(tmp_path) as running:
        running.wait_until_listening()
        assert get(running.port, "/health").status == 200
        api = Llamatik(running)
        before = resident_mb(running)
        for _ in range(3):
            api.init(model_path)
            api.text("generate", prompt="word " * 50, maxTokens=5)
            api.ok("shutdown")
            assert resident_mb(running) <= before + 64
