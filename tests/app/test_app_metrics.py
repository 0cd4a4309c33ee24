"""What `/metrics` says after known requests."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serving import RawStream, Server, get, post, serve_folder, serve_in_process, wait_until
from serving.exposition import Exposition, scrape

NUM_PROMPT, NUM_TOKENS = 4, 6
PROMPT = "sea"  # one token a letter, and that of the beginning
SCHEMA = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}


@pytest.fixture(scope="module")
def served(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    env = {"LLMSERVE_VLLM_METRICS": "true", "LLMSERVE_CONTEXT_LENGTH": "30000"}
    with serve_in_process(tmp_path_factory.mktemp("server"), tiny_model, env=env) as running:
        yield running


@pytest.fixture(scope="module", autouse=True)  # before any test's own requests
def shown(served: Server, tiny_model: Path) -> Exposition:
    """The metrics after two streams and one whole request, two choices, a request by path and a refusal."""
    native = {"prompt": PROMPT, "n_predict": NUM_TOKENS, "ignore_eos": True}
    for is_stream in (True, True, False):
        assert post(served.port, "/completion", {**native, "stream": is_stream}).status == 200
    choices = {"prompt": PROMPT, "max_tokens": NUM_TOKENS, "ignore_eos": True, "n": 2}
    assert post(served.port, "/v1/completions", {"model": tiny_model.stem, **choices}).status == 200
    path = {"model": str(tiny_model), "prompt": PROMPT, "max_tokens": NUM_TOKENS}
    assert post(served.port, "/completions", path).status == 200
    assert post(served.port, "/v1/completions", b"{").status == 400
    return scrape(served.port)


def count(shown: Exposition, kind: str, dialect: str, part: str = "count") -> float:
    return shown.value(f"llmserve_{kind}_{part}", model="llama", dialect=dialect)


@pytest.mark.parametrize(
    "kind",
    [
        "time_to_first_token_seconds",
        "queue_time_seconds",
        "prefill_time_seconds",
        "decode_time_seconds",
        "e2e_request_latency_seconds",
        "request_prompt_tokens",
        "request_generation_tokens",
    ],
)
def test_each_output_is_measured_once(shown: Exposition, kind: str) -> None:
    assert count(shown, kind, "openai") == 5
    assert count(shown, kind, "llamacpp") == 1
    assert shown.families[f"llmserve_{kind}"].type == "histogram"
    assert shown.value(f"llmserve_{kind}_bucket", model="llama", dialect="openai", le="+Inf") == 5


def test_tokens_are_counted(shown: Exposition) -> None:
    assert count(shown, "request_prompt_tokens", "openai", "sum") == 5 * NUM_PROMPT
    assert count(shown, "request_generation_tokens", "openai", "sum") == 5 * NUM_TOKENS
    assert shown.value("llmserve_prompt_tokens_total", model="llama") == 6 * NUM_PROMPT
    drawn = count(shown, "request_generation_tokens", "llamacpp", "sum")
    assert shown.value("llmserve_completion_tokens_total", model="llama") == 5 * NUM_TOKENS + drawn


def test_only_streams_have_gaps(shown: Exposition) -> None:
    # Steps that end before the server looks are one output.
    assert count(shown, "inter_token_latency_seconds", "openai") <= 2 * (NUM_TOKENS - 1)
    assert count(shown, "inter_token_latency_seconds", "llamacpp") == 0


def test_parts_of_a_request_make_up_the_whole(shown: Exposition) -> None:
    parts = ("queue_time_seconds", "prefill_time_seconds", "decode_time_seconds")
    whole = count(shown, "e2e_request_latency_seconds", "openai", "sum")
    assert sum(count(shown, part, "openai", "sum") for part in parts) == pytest.approx(whole)


def test_rows_are_of_prompts_or_of_generated_tokens(shown: Exposition) -> None:
    rows, of_prompts = (
        shown.value(f"llmserve_{name}_total", model="llama") for name in ("rows", "prefill_rows")
    )
    assert 0 < of_prompts < rows


def test_refusals_are_counted_by_reason(shown: Exposition) -> None:
    assert shown.value("llmserve_http_errors_total", reason="malformed_body") == 1


def test_constraints_are_counted(served: Server) -> None:
    before = scrape(served.port).value("llmserve_constraints_total", model="llama")
    call = {"prompt": PROMPT, "n_predict": 30, "json_schema": SCHEMA}
    assert post(served.port, "/completion", call).status == 200
    shown = scrape(served.port)
    assert shown.value("llmserve_constraints_total", model="llama") == before + 1
    assert shown.value("llmserve_constraint_seconds_total", model="llama") > 0


def test_cells_are_in_use_only_while_a_sequence_runs(served: Server) -> None:
    call = {"prompt": PROMPT, "n_predict": 25_000, "ignore_eos": True, "stream": True}
    with RawStream(served.port, "/completion", call) as stream:
        assert stream.read_head()[0] == 200
        next(stream.lines())
        shown = scrape(served.port)
        assert shown.first("llmserve_requests_running") == ({}, 1)
        assert 0 < shown.first("llmserve_kv_usage_ratio")[1] <= 0.25  # one of four slots
        assert shown.first("vllm:num_requests_running") == ({"model_name": "llama"}, 1)
        assert shown.first("vllm:kv_cache_usage_perc")[1] > 0
    wait_until(lambda: scrape(served.port).first("llmserve_requests_running")[1] == 0)
    shown = scrape(served.port)
    assert shown.first("llmserve_kv_usage_ratio") == ({}, 0)
    assert shown.value("llmserve_kv_cells_used", model="llama") > 0  # for later requests


def test_vllm_names_show_the_same(shown: Exposition) -> None:
    assert shown.value("vllm:request_success_total", model_name="llama", finished_reason="length") == (
        shown.value("llmserve_requests_length_total", model="llama")
    )
    labels = {"model_name": "llama", "dialect": "openai"}
    for kind, name in (
        ("time_to_first_token_seconds", "time_to_first_token_seconds"),
        ("queue_time_seconds", "request_queue_time_seconds"),
        ("request_prompt_tokens", "request_prompt_tokens"),
    ):
        assert shown.value(f"vllm:{name}_count", **labels) == count(shown, kind, "openai") > 0
    config = {"model_name": "llama", "block_size": "16"}
    assert any(
        config.items() <= sample.labels.items() for sample in shown.families["vllm:cache_config_info"].samples
    )


def test_the_process_is_shown(shown: Exposition) -> None:
    assert 0 < shown.value("process_start_time_seconds") <= time.time()
    assert shown.value("process_resident_memory_bytes") > 1e6
    assert 0 < shown.value("process_open_fds") < shown.value("process_max_fds")
    assert shown.value("process_cpu_seconds_total") > 0
    assert shown.first("llmserve_build_info")[1] == 1


def test_a_scrape_loads_nothing(tiny_models: Path, tmp_path: Path) -> None:
    with serve_folder(tmp_path, tiny_models) as running:
        shown = scrape(running.port)
        assert not any(name.startswith("vllm:") for name in shown.families)
        assert shown.first("llmserve_requests_waiting") == ({}, 0)
        assert get(running.port, "/health").json["models"] == []


@pytest.mark.parametrize("given", ["abc-1", None, "a b", "x" * 200])
def test_a_plain_request_id_is_sent_back(served: Server, given: str | None) -> None:
    headers: dict[str, Any] = {} if given is None else {"X-Request-ID": given}
    answers = [
        get(served.port, "/v1/models", headers=headers),
        post(served.port, "/v1/completions", b"{", headers=headers),
    ]
    for answer in answers:
        echoed = answer.header("x-request-id")
        assert echoed
        assert (echoed == given) == (given == "abc-1")
