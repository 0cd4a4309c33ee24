from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from llmserve import ContextExceededError, Delta, InvalidParameterError, ModelInfo, SamplingParams, Token
from llmserve.server.apis.completions import convert as completions
from llmserve.server.apis.completions.schema import CompletionRequest
from llmserve.server.apis.llamacpp import convert
from llmserve.server.apis.progress import whole_percents
from llmserve.server.fields.sampling import MAX_COUNT
from llmserve.server.refusals import FieldError, MalformedBodyError
from llmserve.server.web.errors import fault_of
from llmserve.server.web.schema import read
from llmserve.server.web.wire_names import in_wire_names

_ANYTHING: dict[str, Any] = {field.name: None for field in dataclasses.fields(ModelInfo)}
INFO = ModelInfo(**{**_ANYTHING, "kv_type_k": "f16", "kv_type_v": "f16"})
QUANTIZED = dataclasses.replace(INFO, kv_type_k="q8_0", kv_type_v="q8_0")
MIXED = dataclasses.replace(INFO, kv_type_k="q8_0", kv_type_v="q4_0")


def request(**fields: Any) -> CompletionRequest:
    return read(CompletionRequest, {"model": "m", "prompt": "p", **fields}).value


def params(**fields: Any) -> SamplingParams:
    return completions.sampling_params(request(**{"options": {"random_seed": 1}, **fields}))


def test_defaults_are_greedy_with_min_p() -> None:
    assert params(max_tokens=5) == SamplingParams(max_tokens=5, min_p=0.05, seed=1)


def test_everything_is_passed_on() -> None:
    options = {
        "min_p": 0.25,
        "min_tokens_to_keep": 2,
        "repetition_penalty": 1.5,
        "no_repeat_ngram_size": 3,
        "random_seed": 7,
        "max_kv_size": 100,
        "prefill_step_size": 16,
    }
    made = params(max_tokens=9, temperature=0.5, top_p=0.75, top_k=40, options=options)
    assert made == SamplingParams(
        max_tokens=9,
        temperature=0.5,
        top_p=0.75,
        top_k=40,
        min_p=0.25,
        min_tokens_to_keep=2,
        repetition_penalty=1.5,
        no_repeat_ngram_size=3,
        seed=7,
        max_total_tokens=100,
        prefill_step_size=16,
    )


def test_negative_numbers_count_as_zero() -> None:
    options = {
        "min_p": -1,
        "min_tokens_to_keep": -1,
        "repetition_penalty": -1,
        "no_repeat_ngram_size": -1,
        "random_seed": 1,
        "max_kv_size": -1,
        "prefill_step_size": -1,
    }
    made = params(max_tokens=5, temperature=-1, top_p=-1, top_k=-1, options=options)
    assert made == SamplingParams(max_tokens=5, min_p=0.0, seed=1)


@pytest.mark.parametrize("top_p", [0, 1, 0.0, 1.0])
def test_top_p_0_and_1_are_off(top_p: float) -> None:
    assert params(max_tokens=1, top_p=top_p).top_p == 1.0


@pytest.mark.parametrize(
    ("given", "wanted"), [(None, 0), (0, 0), (-1, 0), (-3, 0), (7, 7), (10**12, MAX_COUNT)]
)
def test_max_tokens(given: int | None, wanted: int) -> None:
    assert completions.num_tokens_wanted(request(max_tokens=given)) == wanted


def test_a_random_seed_is_one_that_can_be_sent_back() -> None:
    seeds = {params(max_tokens=1, options={"random_seed": -1}).seed for _ in range(20)}
    assert len(seeds) > 1
    assert all(seed is not None and 0 <= seed < 2**31 for seed in seeds)


@pytest.mark.parametrize("seed", [-2, 2**31, 2**32, 2**64, 1.5, "7", True])
def test_other_seeds_are_refused(seed: object) -> None:
    with pytest.raises(FieldError) as caught:
        request(options={"random_seed": seed})
    assert caught.value.field == "options.random_seed"


@pytest.mark.parametrize(
    ("options", "info", "ignored"),
    [
        ({}, INFO, []),
        ({"length_penalty": 1.0, "diversity_penalty": 0}, INFO, ["length_penalty", "diversity_penalty"]),
        ({"kv_group_size": 64}, QUANTIZED, ["kv_group_size"]),
        ({"length_penalty": None}, INFO, []),
        ({"kv_bits": 8}, INFO, ["kv_bits"]),
        ({"kv_bits": 8}, QUANTIZED, []),
        ({"kv_bits": 4}, QUANTIZED, ["kv_bits"]),
        ({"kv_bits": 8}, MIXED, ["kv_bits"]),
        ({"kv_bits": 16}, INFO, []),
        ({"kv_bits": 0}, INFO, []),
        ({"kv_bits": 0}, QUANTIZED, ["kv_bits"]),
        ({"quantized_kv_start": 0}, QUANTIZED, []),
        ({"quantized_kv_start": 5}, QUANTIZED, ["quantized_kv_start"]),
        ({"quantized_kv_start": 0}, INFO, ["quantized_kv_start"]),
    ],
)
def test_ignored_options(options: dict[str, Any], info: ModelInfo, ignored: list[str]) -> None:
    made = completions.ignored_options(request(options=options).options, info)
    assert made == [f"options.{name}" for name in ignored]


def test_every_token_has_its_event_also_in_merged_deltas() -> None:
    def token(number: int, text: str) -> Token:
        return Token(id=number, bytes=b"", text=text)

    frames = convert.TokenFrames()
    merged = Delta(text="né", tokens=(token(1, "n"), token(2, ""), token(3, "é")))
    made = [*frames.render(merged), *frames.render(Delta(text="", tokens=(token(4, ""),)))]
    assert b"".join(made).decode() == (
        'data: {"message":"n","token":1,"tokens":1}\n\n'
        'data: {"message":"","token":2,"tokens":2}\n\n'
        'data: {"message":"é","token":3,"tokens":3}\n\n'
        'data: {"message":"","token":4,"tokens":4}\n\n'
    )


class _Ticket:
    """A load that tells its progress, and is over then."""

    def __init__(self, *values: float) -> None:
        self._values = values

    async def progress(self) -> AsyncGenerator[float, None]:
        for value in self._values:
            yield value


@pytest.mark.anyio
async def test_progress_rises_by_whole_percents_and_is_1_at_the_end_only() -> None:
    ticket: Any = _Ticket(0.0, 0.004, 0.019, 0.02, 0.025, 0.5, 0.4, 0.999, 1.0)
    assert [value async for value in whole_percents(ticket)] == [0.01, 0.02, 0.5, 0.99, 1]


def test_progress_is_written_as_the_contract_writes_it() -> None:
    assert convert.progress_frame(0.25) == b'data: {"progress":0.25}\n\n'
    assert convert.progress_frame(1) == b'data: {"progress":1}\n\n'
    assert convert.progress_frame(1.0) == b'data: {"progress":1}\n\n'


@pytest.mark.parametrize(
    ("num_tokens", "limit", "max_kv_size", "message"),
    [
        (12, 3, 3, "options.max_kv_size must be at least the prompt's 12 tokens, got 3"),
        (12, 8, 0, "too long"),
        (12, 8, 100, "too long"),
        # Of two equal limits, the one that leaves no room is named.
        (8, 8, 8, "too long"),
    ],
)
def test_a_prompt_is_refused_by_the_limit_that_it_exceeds(
    num_tokens: int, limit: int, max_kv_size: int, message: str
) -> None:
    error = ContextExceededError("too long", prompt_tokens=num_tokens, context_length=limit)
    options = request(options={"max_kv_size": max_kv_size}).options
    fault = fault_of(completions.prompt_refusal(error, options), "llamacpp")
    assert (fault.status, convert.completion_message(fault)) == (400, message)


def test_the_messages_of_loads_and_completions() -> None:
    malformed = fault_of(MalformedBodyError("the body is not valid JSON"), "llamacpp")
    assert convert.render_load_fault(malformed) == {"error": "path is required: the body is not valid JSON"}
    assert convert.render_completion_fault(malformed) == {"error": "the body is not valid JSON"}
    internal = fault_of(RuntimeError("x"), "llamacpp")
    assert convert.render_load_fault(internal) == {"error": "internal error (request -)"}
    assert convert.render_completion_fault(internal) == {
        "error": "prediction failed: internal error (request -)"
    }


def test_the_engines_field_names_become_those_of_the_wire() -> None:
    error = InvalidParameterError("must be at least 1, got 0", field="max_total_tokens")
    fault = fault_of(in_wire_names(error, CompletionRequest), "llamacpp")
    message = "options.max_kv_size: must be at least 1, got 0"
    assert convert.render_completion_fault(fault) == {"error": message}
