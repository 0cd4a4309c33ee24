"""Ollama's API on the wire: what its clients do not look at, but others may."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from serving import Answer, Server, get, post, serve_folder, serve_in_process, wait_until

USER = {"role": "user", "content": "Once upon a time"}
SHORT = {"temperature": 0, "num_predict": 8}
DURATIONS = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")


@pytest.fixture(scope="module")
def server(tiny_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of a folder with a model of each kind."""
    folder = tmp_path_factory.mktemp("models")
    for name in ("llama", "bert-mean", "rank-bert"):
        shutil.copy(tiny_models / f"{name}.gguf", folder)
    with serve_folder(tmp_path_factory.mktemp("server"), folder) as running:
        yield running
        assert "Traceback" not in running.log


def ask(server: Server, route: str, **body: Any) -> Answer:
    return post(server.port, f"/api/{route}", {"model": "llama", **body})


def chat(server: Server, **body: Any) -> Answer:
    return ask(server, "chat", **{"messages": [USER], "options": SHORT, **body})


def whole(server: Server, route: str = "chat", **body: Any) -> Any:
    given = {"messages": [USER]} if route == "chat" else {"prompt": "Once upon a time"}
    answer = ask(server, route, **{**given, "options": SHORT, "stream": False, **body})
    assert answer.status == 200, answer.text
    return answer.json


def lines(answer: Answer) -> list[Any]:
    assert answer.status == 200, answer.text
    assert answer.header("content-type") == "application/x-ndjson"
    return [json.loads(line) for line in answer.text.splitlines()]


def running(server: Server) -> list[str]:
    return [model["name"] for model in get(server.port, "/api/ps").json["models"]]


def test_a_stream_has_what_the_whole_answer_has(server: Server) -> None:
    *parts, last = lines(chat(server))
    answer = whole(server)
    assert "".join(part["message"]["content"] for part in parts) == answer["message"]["content"]
    assert answer["message"]["content"]
    assert all(part["done"] is False and part["model"] == "llama" for part in parts)
    for end in (last, answer):
        assert (end["done"], end["done_reason"], end["eval_count"]) == (True, "length", 8)
        assert all(type(end[name]) is int for name in DURATIONS)
        assert end["total_duration"] >= end["load_duration"] > 0
        assert datetime.fromisoformat(end["created_at"]).tzinfo is not None
    assert last["message"] == {"role": "assistant", "content": ""}


def test_a_prompt_is_the_only_message_of_a_chat(server: Server) -> None:
    *parts, last = lines(ask(server, "generate", prompt="Once upon a time", options=SHORT))
    answer = whole(server, "generate")
    assert (
        "".join(part["response"] for part in parts)
        == answer["response"]
        == whole(server)["message"]["content"]
    )
    assert last["context"] == answer["context"]
    assert len(answer["context"]) == answer["prompt_eval_count"] + answer["eval_count"]
    system = {"role": "system", "content": "Be brief."}
    assert (
        whole(server, "generate", system="Be brief.")["response"]
        == whole(server, messages=[system, USER])["message"]["content"]
    )


def test_a_context_is_gone_on_from(server: Server) -> None:
    first = whole(server, "generate")
    second = whole(server, "generate", prompt="And then?", context=first["context"])
    alone = whole(server, "generate", prompt="And then?")
    added = second["prompt_eval_count"] - len(first["context"])
    # The beginning of a text stands once.
    assert added in (alone["prompt_eval_count"], alone["prompt_eval_count"] - 1)
    assert second["context"][: len(first["context"])] == first["context"]


def test_a_raw_prompt_is_gone_on_with(server: Server) -> None:
    raw = whole(server, "generate", raw=True)
    assert "context" not in raw
    assert raw["prompt_eval_count"] < whole(server, "generate")["prompt_eval_count"]
    completion = {"model": "llama", "prompt": "Once upon a time", "n_predict": 8, "temperature": 0}
    defaults = {"repeat_penalty": 1.1, "repeat_last_n": 64}
    assert raw["response"] == post(server.port, "/completion", {**completion, **defaults}).json["content"]


@pytest.mark.parametrize("field", [{"system": "Be brief."}, {"template": "x"}, {"context": [1, 2]}])
def test_what_a_raw_prompt_has_no_place_for(server: Server, field: dict[str, Any]) -> None:
    refused = ask(server, "generate", prompt="a", raw=True, **field)
    assert refused.status == 400
    assert refused.json["error"].startswith(f"{next(iter(field))} cannot be used with raw")


def test_stops_and_seeds(server: Server) -> None:
    text = whole(server)["message"]["content"]
    cut = whole(server, options={**SHORT, "stop": [text[3:5]]})
    assert cut["message"]["content"] == text[: text.index(text[3:5])]
    assert cut["done_reason"] == "stop"
    seeded = chat(server, options={"num_predict": 8, "seed": 7}, stream=False)
    assert seeded.header("x-llmserve-seed") == "7"
    assert whole(server, options={"num_predict": 8, "seed": 7})["message"] == seeded.json["message"]


def test_formats(server: Server) -> None:
    schema = {"type": "object", "properties": {"age": {"enum": [5, 7]}}, "required": ["age"]}
    options = {"temperature": 0, "num_predict": 60}
    assert json.loads(whole(server, format=schema, options=options)["message"]["content"])["age"] in (5, 7)
    assert isinstance(json.loads(whole(server, "generate", format="json", options=options)["response"]), dict)
    answer = chat(server, format=schema, options={**options, "stop": ["a"]}, stream=False)
    assert answer.header("x-llmserve-ignored") == "options.stop"


def test_log_probabilities(server: Server) -> None:
    answer = whole(server, logprobs=True, top_logprobs=2)
    assert len(answer["logprobs"]) == 8
    for entry in answer["logprobs"]:
        assert [top["logprob"] <= 0 for top in entry["top_logprobs"]] == [True, True]
    streamed = [
        entry
        for part in lines(chat(server, logprobs=True, top_logprobs=2))
        for entry in part.get("logprobs", ())
    ]
    assert streamed == answer["logprobs"]


def test_empty_requests_load_and_unload(server: Server) -> None:
    loaded = ask(server, "generate", keep_alive="5m").json
    assert (loaded["done_reason"], loaded["response"], loaded["done"]) == ("load", "", True)
    (model,) = (
        model for model in get(server.port, "/api/ps").json["models"] if model["name"] == "llama:latest"
    )
    assert datetime.fromisoformat(model["expires_at"]).year < 9999
    assert (model["context_length"], model["size_vram"]) == (2048, 0)
    unloaded = ask(server, "chat", messages=[], keep_alive=0).json
    assert (unloaded["done_reason"], unloaded["message"]["content"]) == ("unload", "")
    assert "llama:latest" not in running(server)
    assert ask(server, "chat", messages=[], keep_alive=0).status == 200


def test_a_model_goes_when_its_time_is_over(server: Server) -> None:
    whole(server, keep_alive=0)
    wait_until(lambda: "llama:latest" not in running(server))
    whole(server, keep_alive="1ms")
    wait_until(lambda: "llama:latest" not in running(server))
    # What is said last holds.
    whole(server, keep_alive="1ms")
    whole(server, keep_alive=-1)
    whole(server)
    assert "llama:latest" in running(server)


def test_what_the_start_keeps_stays_loaded(tiny_model: Path, tmp_path: Path) -> None:
    with serve_in_process(tmp_path, tiny_model, env={"LLMSERVE_SERVED_MODEL_NAME": "mine:3b"}) as server:
        assert ask(server, "generate", model="mine:3b", prompt="a", options=SHORT, keep_alive=0).status == 200
        refused = ask(server, "generate", model="mine:3b", keep_alive=0)
        assert refused.status == 409
        assert "stays loaded" in refused.json["error"]
        assert running(server) == ["mine:3b"]
        assert ask(server, "pull", model="hf.co/a/b").status == 403
        removed = post(server.port, "/api/delete", {"model": "mine:3b"}, method="DELETE")
        assert removed.status == 403
        assert "--models-dir" in removed.json["error"]


def test_lists(server: Server) -> None:
    models = {model["name"]: model for model in get(server.port, "/api/tags").json["models"]}
    assert sorted(models) == ["bert-mean:latest", "llama:latest", "rank-bert:latest"]
    llama = models["llama:latest"]
    assert llama["model"] == "llama:latest"
    assert llama["details"]["family"] == "llama"
    assert llama["size"] > 10_000
    assert len(llama["digest"]) == 64
    assert llama["digest"] != models["bert-mean:latest"]["digest"]
    assert get(server.port, "/api/version").json["version"].count(".") == 2


def test_what_is_shown_of_a_model(server: Server) -> None:
    shown = ask(server, "show", model="LLAMA:latest").json
    assert shown["capabilities"][0] == "completion"
    assert shown["model_info"]["general.architecture"] == "llama"
    assert shown["model_info"]["llama.context_length"] > 0
    assert "tokenizer.chat_template" not in shown["model_info"]
    assert post(server.port, "/api/show", {"name": "bert-mean"}).json["capabilities"] == ["embedding"]
    assert post(server.port, "/api/show", {"name": "rank-bert"}).json["capabilities"] == []
    assert post(server.port, "/api/show", {}).json == {"error": "model is required"}


def test_embeddings(server: Server) -> None:
    answer = ask(server, "embed", model="bert-mean", input=["The sea", "is deep"]).json
    assert [round(sum(value**2 for value in vector), 3) for vector in answer["embeddings"]] == [1, 1]
    assert answer["prompt_eval_count"] > 2
    (one,) = ask(server, "embed", model="bert-mean", input="The sea", dimensions=4).json["embeddings"]
    assert len(one) == 4
    assert ask(server, "embed", model="bert-mean", input=[]).json["embeddings"] == []
    raw = ask(server, "embeddings", model="bert-mean", prompt="The sea").json["embedding"]
    scale = sum(value**2 for value in raw) ** 0.5
    assert [value / scale for value in raw] == pytest.approx(answer["embeddings"][0], abs=1e-5)
    assert ask(server, "embeddings", model="bert-mean").json == {"embedding": []}


def test_long_texts_are_cut_off_unless_they_must_not_be(server: Server) -> None:
    long = "sea " * 3000
    answer = ask(server, "embed", model="bert-mean", input=[long, "sea"]).json
    longer = ask(server, "embed", model="bert-mean", input=[f"{long} {long}"]).json
    assert answer["embeddings"][0] == pytest.approx(longer["embeddings"][0], abs=1e-5)
    assert ask(server, "embed", model="bert-mean", input=long, truncate=False).status == 400


@pytest.mark.parametrize(
    ("route", "body", "status", "message"),
    [
        ("chat", {"model": "nope", "messages": [USER]}, 404, "model 'nope' not found"),
        ("chat", {"messages": [{**USER, "content": "sea " * 3000}]}, 400, "2048 tokens"),
        ("chat", {"messages": [USER], "think": True}, 400, "does not support thinking"),
        ("chat", {"messages": [USER], "model": "bert-mean"}, 400, "embeddings"),
        (
            "chat",
            {"messages": [USER], "options": {"num_predict": 1}, "format": {"const": "abcdefgh"}},
            400,
            "options.num_predict",
        ),
        ("chat", {"messages": [USER], "format": {"type": "x"}}, 400, "format"),
        ("generate", {"prompt": "a", "template": "{{ .Prompt }}"}, 400, "template is not allowed here"),
        ("generate", {"prompt": "a", "suffix": "b"}, 400, "suffix is not supported: this model"),
        ("generate", {"prompt": "a", "images": ["aGk="]}, 400, "images is not supported"),
        ("embed", {"input": "a"}, 400, "does not give embeddings"),
        ("create", {}, 501, "no Modelfiles"),
        ("copy", {}, 501, "not supported"),
        ("push", {}, 501, "not supported"),
        ("blobs/sha256:a", {}, 501, "not supported"),
        ("nope", {}, 404, "no such route"),
    ],
)
def test_refusals(server: Server, route: str, body: dict[str, Any], status: int, message: str) -> None:
    answer = ask(server, route, **body)
    assert answer.status == status, answer.text
    assert list(answer.json) == ["error"]
    assert message in answer.json["error"]


def test_templates_of_requests(tiny_model: Path, tmp_path: Path) -> None:
    with serve_in_process(tmp_path, tiny_model, env={"LLMSERVE_REQUEST_CHAT_TEMPLATE": "1"}) as server:
        template = "{% for m in messages %}{{ m.content }}{% endfor %}"
        name = tiny_model.stem
        plain = whole(server, "generate", model=name, template=template)
        assert plain["prompt_eval_count"] < whole(server, "generate", model=name)["prompt_eval_count"]
        wrong = ask(server, "generate", model=name, prompt="a", template="{{ .Prompt }}")
        assert wrong.status == 400
        assert wrong.json["error"].startswith("template cannot be used")


def test_a_suffix_is_what_the_answer_comes_before(tiny_model: Path, tmp_path: Path) -> None:
    tokens = {
        f"tokenizer.ggml.fim_{name}_token_id": number for number, name in enumerate(("pre", "suf", "mid"), 20)
    }
    env = {"LLMSERVE_METADATA_OVERRIDES": json.dumps(tokens)}
    with serve_in_process(tmp_path, tiny_model, env=env) as server:
        made = whole(server, "generate", model=tiny_model.stem, suffix=" is deep")
        given = {
            "input_prefix": "Once upon a time",
            "input_suffix": " is deep",
            "n_predict": 8,
            "temperature": 0,
        }
        native = post(server.port, "/infill", {**given, "repeat_penalty": 1.1, "repeat_last_n": 64}).json
        assert (made["response"], made["prompt_eval_count"]) == (
            native["content"],
            native["tokens_evaluated"],
        )
        assert (
            whole(server, "generate", model=tiny_model.stem, prompt="", suffix="a")["done_reason"] == "length"
        )


def test_the_rules_of_all_routes_hold(tiny_model: Path, tmp_path: Path) -> None:
    with serve_in_process(tmp_path, tiny_model, env={"LLMSERVE_API_KEY": "k"}) as server:
        for method, path in (("POST", "chat"), ("POST", "pull"), ("DELETE", "delete")):
            path = f"/api/{path}"
            assert post(server.port, path, {"model": "a"}, method=method).status == 401
            headers = {"Authorization": "Bearer k", "Origin": "http://evil.example"}
            assert post(server.port, path, {"model": "a"}, method=method, headers=headers).status == 403
        assert get(server.port, "/api/tags").json["error"].startswith("an API key is required")
        assert get(server.port, "/api/tags", headers={"Authorization": "Bearer k"}).status == 200
