"""llama-server's own API over generated models: prompts, infill, slots, reports, unnamed models."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serving import Answer, Server, events, get, post, serve_in_process, wait_until
from synthetic import main_file

FIM = {"pre": 10, "suf": 11, "mid": 12}
SLOTS = 3
BATCH = 32
LONG = "the sea is deep " * 20


@pytest.fixture(scope="module")
def models(tiny_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    shutil.copy(tiny_models / main_file("llama"), folder / "tiny.gguf")
    shutil.copy(tiny_models / "bert-mean.gguf", folder / "bert.gguf")
    return folder


@pytest.fixture(scope="module")
def server(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    env = {
        "MODELS_DIR": str(models),
        "SESSIONS_DIR": str(tmp_path_factory.mktemp("sessions")),
        "LLMSERVE_LOAD_WAIT_S": "120",
        "LLMSERVE_MAX_SEQUENCES": str(SLOTS),
        "LLMSERVE_CONTEXT_LENGTH": "512",
        "LLMSERVE_BATCH_SIZE": str(BATCH),
        "LLMSERVE_UBATCH_SIZE": str(BATCH),
        "LLMSERVE_METADATA_OVERRIDES": json.dumps(
            {f"tokenizer.ggml.fim_{name}_token_id": number for name, number in FIM.items()}
        ),
        "LLMSERVE_LLAMACPP_METRICS": "true",
    }
    folder = tmp_path_factory.mktemp("server")
    with serve_in_process(folder, models / "tiny.gguf", env=env) as running:
        yield running
        assert "Traceback" not in running.log


def ask(server: Server, path: str = "/completion", **body: Any) -> Answer:
    return post(server.port, path, {"prompt": "the sea", "n_predict": 4, "temperature": 0, **body})


def parts(answer: Answer) -> list[Any]:
    assert answer.status == 200, answer.text
    return [json.loads(line.removeprefix("data: ")) for line in events(answer.text)]


def tokens(server: Server, text: str, **body: Any) -> list[int]:
    found: list[int] = post(server.port, "/tokenize", {"content": text, **body}).json["tokens"]
    return found


def refusal(answer: Answer) -> tuple[int, str | None]:
    return answer.status, answer.json["error"]["param"]


def test_prompts_of_all_forms_are_one_prompt(server: Server) -> None:
    whole = tokens(server, "the sea", add_special=True)
    texts = [ask(server, prompt=prompt).json["content"] for prompt in ("the sea", whole)]
    assert texts[0] == texts[1] == ask(server, prompt={"prompt_string": "the sea"}).json["content"]
    mixed = ask(server, prompt=["the", *tokens(server, " sea")]).json
    assert mixed["tokens_evaluated"] == len(tokens(server, "the", add_special=True)) + len(
        tokens(server, " sea")
    )
    several = ask(server, prompt=["the sea", whole, {"prompt_string": "trees"}]).json
    assert [item["index"] for item in several] == [0, 1, 2]
    assert [item["content"] for item in several[:2]] == texts
    both = ask(server, prompt=["the sea", "trees"], n_cmpl=2, temperature=0).json
    assert [item["index"] for item in both] == [0, 1, 2, 3]
    assert both[0]["prompt"] == both[1]["prompt"] != both[2]["prompt"]
    ends = [part["index"] for part in parts(ask(server, prompt=["a", "b"], stream=True)) if part["stop"]]
    assert sorted(ends) == [0, 1]
    assert refusal(ask(server, prompt={"prompt_string": "a", "multimodal_data": ["x"]})) == (
        400,
        "prompt.multimodal_data",
    )
    assert post(server.port, "/tokenize", {"content": ["the", 5, "sea"]}).json["tokens"] == [
        *tokens(server, "the"),
        5,
        *tokens(server, "sea"),
    ]


def test_the_seeds_route_takes_them_too(server: Server) -> None:
    body = {"model": "tiny.gguf", "max_tokens": 3}
    plain = post(server.port, "/completions", {**body, "prompt": "the sea"}).json
    ids = tokens(server, "the sea", add_special=True)
    assert post(server.port, "/completions", {**body, "prompt": ids}).json == plain
    mixed = post(server.port, "/completions", {**body, "prompt": ["the sea", *ids]})
    assert mixed.status == 200
    assert post(server.port, "/completions", {**body, "prompt": ["a", "b"]}).status == 400


def test_settings_and_chosen_fields(server: Server) -> None:
    made = ask(server, seed=5, top_k=7, stop=["x"], id_slot=-1).json
    settings = made["generation_settings"]
    assert (settings["seed"], settings["n_predict"], settings["top_k"]) == (5, 4, 7)
    assert (settings["stop"], settings["stream"], settings["cache_prompt"]) == (["x"], False, True)
    assert made["prompt"].endswith("the sea")
    chosen = ask(server, response_fields=["content", "generation_settings/n_predict", "nothing/here"]).json
    assert chosen == {"content": made["content"], "generation_settings/n_predict": 4}


def test_a_full_context_counts_as_truncated(server: Server) -> None:
    assert ask(server, n_predict=-1, ignore_eos=True, response_fields=["truncated"]).json == {
        "truncated": True
    }
    assert not ask(server).json["truncated"]


def test_probabilities(server: Server) -> None:
    whole = ask(server, n_probs=3).json["completion_probabilities"]
    assert len(whole) == 4
    for token in whole:
        assert token["logprob"] == token["top_logprobs"][0]["logprob"] <= 0
        assert (len(token["top_logprobs"]), bytes(token["bytes"]).decode()) == (3, token["token"])
    *streamed, _ = parts(ask(server, n_probs=3, stream=True))
    assert [part["completion_probabilities"][0]["id"] for part in streamed] == [item["id"] for item in whole]
    assert "completion_probabilities" not in ask(server).json
    assert refusal(ask(server, post_sampling_probs=True)) == (400, "post_sampling_probs")


@pytest.mark.parametrize("path", ["/completion", "/v1/completions", "/v1/chat/completions"])
def test_a_stream_reports_its_prompt_and_its_speed(server: Server, path: str) -> None:
    body = {"messages": [{"role": "user", "content": LONG}], "prompt": LONG}
    body.pop("prompt" if "chat" in path else "messages")
    asked = {**body, "cache_prompt": False, "max_tokens": 4, "temperature": 0, "stream": True}
    answer = post(server.port, path, {**asked, "return_progress": True, "timings_per_token": True})
    found = [json.loads(line.removeprefix("data: ")) for line in events(answer.text) if "[DONE]" not in line]
    progress = [event["prompt_progress"] for event in found if "prompt_progress" in event]
    processed = [report["processed"] for report in progress]
    assert processed[0] == progress[0]["cache"] == 0
    assert processed[-1] == progress[-1]["total"] > 2 * BATCH
    assert processed == sorted(set(processed))
    assert len(processed) > 2
    timings = [event["timings"] for event in found if "timings" in event]
    assert [counts["predicted_n"] for counts in timings] == sorted(
        counts["predicted_n"] for counts in timings
    )
    # A reader that is slower than the model gets fewer events.
    assert len(timings) >= 2
    quiet = post(server.port, path, asked).text
    assert "prompt_progress" not in quiet
    assert quiet.count('"timings"') == 1


def test_the_usage_chunk_has_timings(server: Server) -> None:
    for path in ("/v1/completions", "/v1/chat/completions"):
        body = {"prompt": "a"} if "chat" not in path else {"messages": [{"role": "user", "content": "a"}]}
        options = {"stream": True, "max_tokens": 2, "stream_options": {"include_usage": True}}
        *_, last, done = events(post(server.port, path, {**body, **options}).text)
        assert done == "data: [DONE]"
        chunk = json.loads(last.removeprefix("data: "))
        assert chunk["choices"] == []
        assert chunk["timings"]["predicted_n"] == chunk["usage"]["completion_tokens"]


def test_infill(server: Server) -> None:
    body = {"input_prefix": "the", "input_suffix": "deep", "prompt": " sea", "n_predict": 3}
    made = ask(server, "/infill", **body).json
    ids = [
        FIM["pre"],
        *tokens(server, "the", parse_special=False),
        *tokens(server, " sea"),
        FIM["suf"],
        *tokens(server, "deep", parse_special=False),
        FIM["mid"],
    ]
    begin = tokens(server, "", add_special=True)[:1]
    assert made["prompt"] == post(server.port, "/detokenize", {"tokens": [*begin, *ids]}).json["content"]
    assert made["tokens_predicted"] == 3
    extra = [{"filename": "a.h", "text": "trees"}]
    assert "trees" in ask(server, "/infill", **body, input_extra=extra).json["prompt"]
    long = ask(server, "/infill", **{**body, "input_prefix": LONG * 10, "input_suffix": LONG * 10})
    assert long.status == 200
    assert long.json["tokens_evaluated"] <= 512 - 3
    suffixed = post(server.port, "/v1/completions", {"prompt": "the sea", "suffix": "deep", "max_tokens": 3})
    assert suffixed.json["usage"]["prompt_tokens"] == len(ids) + len(begin)
    for wrong, name in (({}, "text"), ({"text": "a", "filename": 5}, "filename")):
        answer = ask(server, "/infill", **body, input_extra=[wrong])
        assert refusal(answer) == (400, f"input_extra[0].{name}")


def test_a_model_without_its_tokens_is_named(tiny_model: Path, tmp_path: Path) -> None:
    with serve_in_process(tmp_path, tiny_model) as plain:
        refused = post(plain.port, "/infill", {"input_prefix": "a", "input_suffix": "b"})
        assert refused.status == 501
        assert "no token for the prefix and the suffix and the middle" in refused.json["error"]["message"]
        assert refusal(post(plain.port, "/v1/completions", {"prompt": "a", "suffix": "b"})) == (400, "suffix")
        # Without MODELS_DIR, local requests may see and name paths.
        assert get(plain.port, "/props").json["model_path"] == str(tiny_model)
        assert get(plain.port, "/v1/models").json["data"][0]["aliases"] == [str(tiny_model)]
        assert ask(plain, model=str(tiny_model)).status == 200


def test_a_slot_is_a_session_that_can_be_saved(server: Server) -> None:
    first = ask(server, prompt=LONG, id_slot=1).json
    assert first["id_slot"] == 1
    slots = get(server.port, "/slots").json
    assert [slot["id"] for slot in slots] == list(range(SLOTS))
    # The last token has no cell yet, but belongs to the session.
    assert slots[1]["n_prompt_tokens"] == first["tokens_evaluated"] + 4
    assert (slots[0].get("n_prompt_tokens"), slots[0]["n_ctx"]) == (None, 512)
    saved = post(server.port, "/slots/1?action=save", {"filename": "one.bin"}).json
    assert (saved["id_slot"], saved["n_saved"]) == (1, slots[1]["n_prompt_tokens"])
    # A prompt replaces what the slot holds, and takes over what they have in common.
    again = ask(server, prompt=LONG + "green", id_slot=1).json
    assert again["tokens_cached"] > first["tokens_evaluated"] // 2
    restored = post(server.port, "/slots/2?action=restore", {"filename": "one.bin"}).json
    assert (restored["n_restored"], restored["n_read"]) == (saved["n_saved"], saved["n_written"])
    assert get(server.port, "/slots").json[2]["n_prompt_tokens"] == saved["n_saved"]
    assert post(server.port, "/slots/2?action=erase", b"").json == {
        "id_slot": 2,
        "n_erased": saved["n_saved"],
    }
    assert get(server.port, "/slots").json[2]["n_prompt_tokens"] == 0
    chatted = post(
        server.port,
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "a"}], "id_slot": 0, "max_tokens": 2},
    )
    assert chatted.status == 200
    assert get(server.port, "/slots").json[0]["n_prompt_tokens"] > 2


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("/slots/9?action=save", {"filename": "a"}, (400, "id_slot")),
        ("/slots/x?action=save", {"filename": "a"}, (400, "id_slot")),
        ("/slots/0", {"filename": "a"}, (400, "action")),
        ("/slots/0?action=copy", {"filename": "a"}, (400, "action")),
        ("/slots/0?action=restore", {}, (400, "filename")),
        ("/slots/0?action=restore", {"filename": "../a"}, (400, "filename")),
        ("/slots/0?action=restore", {"filename": "nothing"}, (400, None)),
        ("/completion", {"prompt": "a", "id_slot": SLOTS}, (400, "id_slot")),
    ],
)
def test_wrong_slots(server: Server, path: str, body: dict[str, Any], expected: tuple[int, str]) -> None:
    assert refusal(post(server.port, path, body)) == expected


def test_a_model_need_not_be_named(server: Server) -> None:
    messages = [{"role": "user", "content": "a"}]
    for model in (None, "", "tiny", "tiny.gguf"):
        body = {"messages": messages, "max_tokens": 1, "model": model}
        answer = post(server.port, "/v1/chat/completions", body)
        assert answer.json["model"] == "tiny"
    assert post(server.port, "/v1/embeddings", {"input": "the sea"}).json["model"] == "bert"
    parts = {"content": [{"type": "text", "text": "the "}, {"type": "text", "text": "sea"}]}
    several = post(server.port, "/v1/embeddings", {"input": ["the sea", parts]}).json["data"]
    assert several[0]["embedding"] == several[1]["embedding"]
    assert refusal(post(server.port, "/v1/embeddings", {"input": {"content": "a"}}))[0] == 400


def test_what_a_model_is_like(server: Server) -> None:
    props = get(server.port, "/props?model=tiny").json
    assert (props["model_path"], props["total_slots"], props["model_alias"]) == ("tiny.gguf", SLOTS, "tiny")
    assert props["default_generation_settings"]["n_ctx"] == 512
    assert props["default_generation_settings"]["params"]["top_k"] == 40
    assert get(server.port, "/lora-adapters?model=tiny").json == []
    body = {"messages": [{"role": "user", "content": "the sea"}]}
    prompt = post(server.port, "/apply-template", body).json["prompt"]
    assert "the sea" in prompt
    for path in ("/v1/chat/completions/input_tokens", "/chat/completions/input_tokens"):
        counted = post(server.port, path, body).json["input_tokens"]
    made = post(server.port, "/v1/chat/completions", {**body, "max_tokens": 1}).json
    assert made["usage"]["prompt_tokens"] == counted
    rendered = post(server.port, "/v1/chat/completions/render", body).json["token_ids"]
    assert len(rendered) == counted
    assert post(server.port, "/tokenize", {"content": prompt, "add_special": True}).json["tokens"] == rendered


def test_a_router_asks_for_the_tokens_of_prompts(server: Server) -> None:
    prompts = {"prompt": ["the sea", [5, 6, 7]], "truncate_prompt_tokens": 3}
    rendered = [one["token_ids"] for one in post(server.port, "/v1/completions/render", prompts).json]
    whole = post(server.port, "/tokenize", {"content": "the sea", "add_special": True}).json["tokens"]
    assert rendered == [whole[-3:], [5, 6, 7]]
    made = post(server.port, "/v1/completions", {"prompt": rendered[0], "max_tokens": 1, "echo": True}).json
    assert made["usage"]["prompt_tokens"] == 3


def test_a_router_loads_and_unloads(server: Server) -> None:
    def status() -> str:
        data = get(server.port, "/models").json["data"]
        found: str = next(model["status"]["value"] for model in data if model["id"] == "bert")
        return found

    assert post(server.port, "/models/load", {"model": "bert"}).json == {"success": True}
    wait_until(lambda: status() == "loaded")
    assert post(server.port, "/models/unload", {"model": "bert"}).json == {"success": True}
    assert status() == "unloaded"
    assert post(server.port, "/models/load", {"model": "nobody"}).status == 400
    assert post(server.port, "/models/load", {}).json == {"error": "path is required"}
    assert post(server.port, "/models/load", b"{").json["error"].startswith("path is required: ")


def test_metrics_under_llama_servers_names(server: Server) -> None:
    ask(server)
    answer = get(server.port, "/metrics")
    lines = answer.text.splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if line.startswith("llamacpp:"))
    assert len(values) == 15
    assert float(values["llamacpp:tokens_predicted_total"]) > 0
    assert float(values["llamacpp:n_tokens_max"]) > 4
    assert int(answer.header("process-start-time-unix") or 0) > 0
