"""The gRPC service of a server process: texts, tokens, metadata, statuses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest

from serving import Llamatik, ServerProcess, events, free_port, post, read_metrics, serve, wait_until
from serving.grpc_client import GrpcClient, connect, failure
from synthetic import main_file

CHAT = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
SIXTEEN = [f"The number {n} and the letter {chr(65 + n)} are" for n in range(16)]
CONTEXT_LENGTH = 20_000
# The generated model is fast: what is cancelled must have far to go.
ENDLESS: dict[str, Any] = {"prompt": "1 2 3 4 5", "max_tokens": 19_000}


@dataclass(frozen=True)
class Both:
    """A server with both listeners, and a client of each."""

    server: ServerProcess
    grpc_port: int
    client: GrpcClient
    model: Path

    def complete(self, *, session: str | None = None, **fields: Any) -> Any:
        headers = {} if session is None else {"X-LLMServe-Session": session}
        body = {"model": str(self.model), "prompt": "Once upon a time", **fields}
        answer = post(self.server.port, "/completions", body, headers=headers)
        assert answer.status == 200, answer.text
        return answer

    def text_over_http(self, **fields: Any) -> str:
        text: str = self.complete(**fields).json["message"]
        return text

    def metric(self, name: str) -> float:
        return read_metrics(self.server.port)[f'llmserve_{name}{{model="{self.model.stem}"}}']

    def wait_idle(self) -> None:
        wait_until(lambda: all(self.metric(f"requests_{state}") == 0 for state in ("running", "waiting")))


@pytest.fixture(scope="module")
def both(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    port = free_port()
    env = {
        "LLMSERVE_MAX_BODY_BYTES": "200000",
        "LLMSERVE_GRPC_PORT": str(port),
        "LLMSERVE_CONTEXT_LENGTH": str(CONTEXT_LENGTH),
        # As with the default model, a prompt may be empty.
        "LLMSERVE_METADATA_OVERRIDES": '{"tokenizer.ggml.add_bos_token": false}',
    }
    with serve(tmp_path_factory.mktemp("grpc"), tiny_model, env=env) as server:
        server.wait_until_ready()
        with connect(port, tiny_model) as client:
            yield Both(server, port, client, tiny_model)
        assert "Traceback" not in server.log


def test_the_start_names_the_address(both: Both) -> None:
    both.server.wait_for_log(f"gRPC            127.0.0.1:{both.grpc_port}\n")


def test_ping(both: Both) -> None:
    assert both.client.ping() == both.client.pb.PingResponse()


def test_each_call_has_a_line_in_the_log(both: Both) -> None:
    both.client.text(prompt="Once upon a time", max_tokens=3)
    line = (
        rf"gRPC proto\.LLMServer/\S+ OK \d+\.\d{{3}} s model={both.model.stem} tokens=\d+\+3 finish=length\n"
    )
    wait_until(lambda: re.search(line, both.server.log) is not None)


@pytest.mark.parametrize("prompt", ["Once upon a time", CHAT, "🙂🚀 日本語で: 猫は"])
def test_default_sampling_is_greedy_and_the_text_is_that_of_http(both: Both, prompt: str) -> None:
    messages = both.client.stream(prompt=prompt, max_tokens=24)
    assert [message.tokens for message in messages] == list(range(1, len(messages) + 1))
    whole = both.client.text(prompt=prompt, max_tokens=24)
    assert whole == both.text_over_http(prompt=prompt, max_tokens=24)
    assert b"".join(message.message for message in messages).decode(errors="replace") == whole
    lines = events(both.complete(prompt=prompt, max_tokens=24, stream=True).text)[:-1]
    over_http = [json.loads(line.removeprefix("data: ")) for line in lines]
    assert [message.token for message in messages] == [event["token"] for event in over_http]


def test_a_token_may_be_a_part_of_a_character(both: Both) -> None:
    options = {"random_seed": 11}
    messages = both.client.stream(prompt="🙂🚀 🙂🚀 🙂", max_tokens=30, temperature=50, options=options)
    parts = [message.message for message in messages]
    assert any(part and part.decode(errors="replace").encode() != part for part in parts)


def test_seeds(both: Both) -> None:
    def text(seed: int) -> str:
        options = {"random_seed": seed, "min_p": 0.0}
        return both.client.text(max_tokens=10, temperature=1.0, top_p=0.9, options=options)

    assert text(7) == text(7)
    assert text(7) != text(8)
    options = {"random_seed": 7, "min_p": 0}
    assert text(7) == both.text_over_http(max_tokens=10, temperature=1.0, top_p=0.9, options=options)


def test_a_random_seed_is_in_the_initial_metadata(both: Both) -> None:
    fields: dict[str, Any] = {"max_tokens": 10, "temperature": 1.0, "stream": True}
    call = both.client.call(**fields)
    seed = dict(call.initial_metadata())["x-llmserve-seed"]
    again = both.client.call(**fields, options={"random_seed": int(seed)})
    assert [message.token for message in call] == [message.token for message in again]


def test_options_without_effect_are_named(both: Both) -> None:
    options = {"length_penalty": 1.0, "kv_bits": 4, "kv_group_size": 64, "min_p": 0.1}
    call = both.client.call(max_tokens=1, options=options)
    ignored = dict(call.initial_metadata())["x-llmserve-ignored"].split(", ")
    assert set(ignored) == {"options.length_penalty", "options.kv_bits", "options.kv_group_size"}
    list(call)
    call = both.client.call(max_tokens=1)
    assert "x-llmserve-ignored" not in dict(call.initial_metadata())
    list(call)


@pytest.mark.parametrize("max_tokens", [0, -1])
@pytest.mark.parametrize("is_stream", [False, True])
def test_no_tokens_wanted_no_message(both: Both, max_tokens: int, is_stream: bool) -> None:
    call = both.client.call(max_tokens=max_tokens, stream=is_stream)
    assert list(call) == []
    assert call.code() is grpc.StatusCode.OK


def test_max_kv_size_bounds_prompt_plus_output(both: Both) -> None:
    prompt = "one two three four five six"
    size = len(both.client.stream(prompt=prompt, max_tokens=100, options={"max_kv_size": 60}))
    assert len(both.client.stream(prompt=prompt, max_tokens=100, options={"max_kv_size": 64})) == size + 4
    refused = failure(both.client.call(prompt=prompt, max_tokens=5, options={"max_kv_size": 3}))
    assert refused.code is grpc.StatusCode.INVALID_ARGUMENT
    assert refused.details == f"options.max_kv_size must be at least the prompt's {60 - size} tokens, got 3"


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize(
    ("fields", "code", "details"),
    [
        ({"model": ""}, "INVALID_ARGUMENT", "model is required"),
        ({"model": "/no/such.gguf"}, "NOT_FOUND", "unknown model: model must be the path of a loaded model"),
        ({"model": "a\0b"}, "PERMISSION_DENIED", "model is not allowed"),
        ({"top_p": 1.5}, "INVALID_ARGUMENT", "top_p must be at most 1, got 1.5"),
        ({"prompt": ""}, "INVALID_ARGUMENT", "prompt: must have at least one token"),
        (
            {"options": {"random_seed": -2}},
            "INVALID_ARGUMENT",
            "options.random_seed must be at least -1, got -2",
        ),
        (
            {"metadata": (("x-llmserve-session", "a b"),)},
            "INVALID_ARGUMENT",
            "X-LLMServe-Session must be 1 to 128 of A-Z a-z 0-9 . _ -, got 'a b'",
        ),
    ],
)
def test_refusals(both: Both, fields: dict[str, Any], code: str, details: str, is_stream: bool) -> None:
    refused = failure(both.client.call(**{"max_tokens": 5, "stream": is_stream, **fields}))
    assert (refused.code.name, refused.details) == (code, details)
    assert len(refused.trailer["x-request-id"]) == 32


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_prompt_over_the_context_is_refused_with_both_numbers(both: Both, is_stream: bool) -> None:
    refused = failure(both.client.call(prompt="word " * 8000, max_tokens=5, stream=is_stream))
    assert refused.code is grpc.StatusCode.INVALID_ARGUMENT
    assert str(CONTEXT_LENGTH) in refused.details
    assert max(map(int, re.findall(r"\d+", refused.details))) > CONTEXT_LENGTH
    assert len(both.client.stream(max_tokens=1)) == 1


def test_a_message_over_the_limit_and_one_that_is_none(both: Both) -> None:
    refused = failure(both.client.call(prompt="x" * 300_000, max_tokens=5))
    assert refused.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    raw = both.client.channel.unary_stream("/proto.LLMServer/Predict", None, None)
    assert failure(raw(b"\xff\xff")).code is grpc.StatusCode.INVALID_ARGUMENT
    unknown = both.client.channel.unary_unary("/proto.LLMServer/Delete", None, None)
    assert failure(partial(unknown, b"")).code is grpc.StatusCode.UNIMPLEMENTED


def test_200_quick_requests_in_a_row(both: Both) -> None:
    first = both.client.stream(max_tokens=2)
    for number in range(200):
        if number % 2:
            assert both.client.stream(max_tokens=2) == first
        else:
            assert both.client.text(max_tokens=2).encode() == b"".join(message.message for message in first)
    both.wait_idle()


def test_16_in_parallel_answer_as_alone(both: Both) -> None:
    def ask(prompt: str) -> str:
        if prompt in SIXTEEN[::2]:
            return b"".join(m.message for m in both.client.stream(prompt=prompt, max_tokens=8)).decode()
        return both.client.text(prompt=prompt, max_tokens=8)

    alone = [ask(prompt) for prompt in SIXTEEN]
    with ThreadPoolExecutor(16) as pool:
        together = list(pool.map(ask, SIXTEEN))
    # Near-ties may flip with the shape of a batch; an answer to another's question would not begin alike.
    same = [one == two for one, two in zip(alone, together, strict=True)]
    assert sum(same) >= 15, list(zip(alone, together, strict=True))


def test_a_reader_that_pauses_loses_nothing_and_slows_nobody(both: Both) -> None:
    both.wait_idle()
    num_done = both.metric("requests_length_total") + both.metric("requests_stopped_total")
    # The client takes a few bytes ahead of its reader and no more.
    narrow = (("grpc.http2.lookahead_bytes", 1), ("grpc.http2.bdp_probe", 0))
    with connect(both.grpc_port, both.model, narrow) as slow:
        call = slow.call(stream=True, max_tokens=300)
        messages = [next(call)]
        # It reads on when its whole text has long been generated, and others have been served meanwhile.
        assert len(both.client.stream(max_tokens=3)) == 3
        wait_until(
            lambda: (
                both.metric("requests_length_total") + both.metric("requests_stopped_total") == num_done + 2
            )
        )
        messages += call
    assert [message.tokens for message in messages] == list(range(1, len(messages) + 1))
    assert messages == both.client.stream(max_tokens=300)


def test_a_cancelled_call_leaves_the_engine_idle(both: Both) -> None:
    both.wait_idle()
    num_cancelled = both.metric("requests_cancelled_total")
    for is_stream in (True, False):
        call = both.client.call(**ENDLESS, stream=is_stream)
        if is_stream:
            next(call)
        else:
            wait_until(lambda: both.metric("requests_running") == 1)
        num_steps = both.metric("steps_total")
        call.cancel()
        both.wait_idle()
        assert both.metric("steps_total") < num_steps + ENDLESS["max_tokens"] / 2
        assert failure(call).code is grpc.StatusCode.CANCELLED
    assert both.metric("requests_cancelled_total") == num_cancelled + 2


def test_a_deadline_ends_the_call(both: Both) -> None:
    both.wait_idle()
    num_cancelled = both.metric("requests_cancelled_total")
    call = both.client.call(**ENDLESS, stream=True, timeout=1.0)
    assert failure(call).code is grpc.StatusCode.DEADLINE_EXCEEDED
    both.wait_idle()
    assert both.metric("requests_cancelled_total") == num_cancelled + 1


def test_a_client_that_vanishes_leaves_the_engine_idle(both: Both) -> None:
    both.wait_idle()
    with connect(both.grpc_port, both.model) as leaving:
        next(leaving.call(**ENDLESS, stream=True))
    both.wait_idle()


def test_a_session_goes_on_in_both_dialects(both: Both) -> None:
    parts = ["The sea is", " and the sky", " so that"]
    expected = [both.text_over_http(session="http", prompt=part, max_tokens=6) for part in parts]
    metadata = (("x-llmserve-session", "mixed"),)
    first = both.client.text(prompt=parts[0], max_tokens=6, metadata=metadata)
    second = both.text_over_http(session="mixed", prompt=parts[1], max_tokens=6)
    third = both.client.stream(prompt=parts[2], max_tokens=6, metadata=metadata)
    assert [first, second, b"".join(message.message for message in third).decode()] == expected
    # Without it, there is no memory.
    assert both.client.text(prompt=parts[2], max_tokens=6) != expected[2]


def test_calls_of_one_session_queue_in_order(both: Both) -> None:
    metadata = (("x-llmserve-session", "queue"),)
    first = both.client.call(prompt="One", max_tokens=40, stream=True, metadata=metadata)
    next(first)
    second = both.client.call(prompt=" two", max_tokens=3, stream=True, metadata=metadata)
    assert len(list(second)) == 3
    assert len(list(first)) == 39


def test_a_cancellation_by_another_dialect_is_a_status(both: Both) -> None:
    llamatik = Llamatik(both.server)
    llamatik.init(both.model)
    metadata = (("x-llmserve-session", "shared"),)
    for is_stream in (True, False):
        both.wait_idle()
        call = both.client.call(**ENDLESS, stream=is_stream, metadata=metadata)
        wait_until(lambda: both.metric("requests_running") == 1)
        llamatik.ok("cancel", {"sessionId": "shared"})
        ended = failure(call)
        assert ended.code is grpc.StatusCode.CANCELLED
        assert ended.details == "the call was cancelled in its session"
        llamatik.ok("session/reset", {"sessionId": "shared"})


def test_request_ids(both: Both) -> None:
    call = both.client.call(max_tokens=1, metadata=(("x-request-id", "abc-1.2_3"),))
    list(call)
    assert dict(call.trailing_metadata())["x-request-id"] == "abc-1.2_3"


def test_a_model_that_http_has_loaded_is_there(both: Both, tiny_models: Path) -> None:
    other = tiny_models / main_file("swa")
    assert failure(both.client.call(model=str(other), max_tokens=1)).code is grpc.StatusCode.NOT_FOUND
    assert post(both.server.port, "/models/load", {"path": str(other)}).text.endswith("[DONE]\n\n")
    assert len(both.client.stream(model=str(other), max_tokens=3)) == 3
    assert [message.progress for message in both.client.load(other)] == [1]


def calls(both: Both, method: str, status: str) -> float:
    name = f'llmserve_grpc_requests_total{{method="{method}",status="{status}"}}'
    return read_metrics(both.server.port).get(name, 0)


def test_calls_are_counted_by_method_and_status(both: Both) -> None:
    predict = "proto.LLMServer/Predict"

    def counts() -> list[float]:
        statuses = ("OK", "INVALID_ARGUMENT", "CANCELLED")
        return [
            *(calls(both, predict, status) for status in statuses),
            calls(both, "proto.LLMServer/Ping", "OK"),
            calls(both, "other", "UNIMPLEMENTED"),
        ]

    both.wait_idle()
    before = counts()
    both.client.ping()
    both.client.text(max_tokens=2)
    both.client.stream(max_tokens=2)
    failure(both.client.call(max_tokens=2, top_p=2.0))
    failure(partial(both.client.channel.unary_unary("/proto.LLMServer/Delete", None, None), b""))
    call = both.client.call(**ENDLESS, stream=True)
    next(call)
    assert read_metrics(both.server.port)["llmserve_grpc_requests_open"] == 1
    call.cancel()
    both.wait_idle()
    wait_until(lambda: read_metrics(both.server.port)["llmserve_grpc_requests_open"] == 0)
    added = [now - then for now, then in zip(counts(), before, strict=True)]
    assert added == [2, 1, 1, 1, 1]
    assert read_metrics(both.server.port)[f'llmserve_grpc_request_seconds_total{{method="{predict}"}}'] > 0
