"""Sampling parameters are checked when they are made."""

from __future__ import annotations

import math
import pickle
from types import MappingProxyType
from typing import Any

import pytest

from llmserve import InvalidParameterError, ModelConfig, SamplingParams
from llmserve.options import ModelOptions, SamplingOptions
from llmserve.sampling_params import ALL_SAMPLERS

U32 = 4294967295
INTEGER = f"must be an integer from 0 to {U32}, got"

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"max_tokens": 0}, "must be at least 1, got 0"),
    ({"max_tokens": -1}, f"{INTEGER} -1"),
    ({"max_tokens": True}, f"{INTEGER} True"),
    ({"max_tokens": 1.0}, f"{INTEGER} 1.0"),
    ({"max_tokens": "5"}, f"{INTEGER} '5'"),
    ({"max_tokens": 2**32}, f"{INTEGER} 4294967296"),
    ({"temperature": math.nan}, "must be a number of at least 0, got NaN"),
    ({"temperature": math.inf}, "must be a number of at least 0, got inf"),
    ({"temperature": 1e300}, "must be a number of at least 0, got inf"),
    ({"temperature": -0.1}, "must be a number of at least 0, got -0.1"),
    ({"temperature": False}, "must be a number, got False"),
    ({"temperature": "1"}, "must be a number, got '1'"),
    ({"temperature": None}, "must be a number, got None"),
    ({"top_k": -1}, f"{INTEGER} -1"),
    ({"top_p": 0}, "must be a number above 0, got 0"),
    ({"top_p": 1.5}, "must be a number from 0 to 1, got 1.5"),
    ({"min_p": -0.5}, "must be a number from 0 to 1, got -0.5"),
    ({"min_p": math.nan}, "must be a number from 0 to 1, got NaN"),
    ({"typical_p": 1.5}, "must be a number from 0 to 1, got 1.5"),
    ({"top_n_sigma": -1}, "must be a number of at least 0, got -1"),
    ({"xtc_probability": 2}, "must be a number from 0 to 1, got 2"),
    ({"xtc_threshold": "x"}, "must be a number, got 'x'"),
    ({"dynatemp_range": -1}, "must be a number of at least 0, got -1"),
    ({"dynatemp_exponent": math.inf}, "must be a number of at least 0, got inf"),
    ({"adaptive_target": 2}, "must be a number from -1 to 1, got 2"),
    ({"adaptive_decay": 1}, "must be a number from 0 to 0.99, got 1"),
    ({"mirostat": 3}, "must be 0, 1 or 2, got 3"),
    ({"mirostat": True}, f"{INTEGER} True"),
    ({"mirostat_tau": -1}, "must be a number of at least 0, got -1"),
    ({"mirostat_eta": -1}, "must be a number of at least 0, got -1"),
    ({"samplers": "kt"}, "must be a sequence, got 'kt'"),
    ({"samplers": ["top-k"]}, f"must be one of {', '.join(map(repr, ALL_SAMPLERS))}, got 'top-k'"),
    ({"samplers": ["top_k"] * 33}, "must have at most 32 entries, got 33"),
    ({"repeat_last_n": -1}, f"{INTEGER} -1"),
    ({"dry_multiplier": -1}, "must be a number of at least 0, got -1"),
    ({"dry_base": 0.5}, "must be a number of at least 1, got 0.5"),
    ({"dry_allowed_length": 0}, "must be at least 1, got 0"),
    ({"dry_penalty_last_n": None}, f"{INTEGER} None"),
    ({"dry_sequence_breakers": [""]}, "must not contain an empty string"),
    ({"dry_sequence_breakers": "x"}, "must be a sequence, got 'x'"),
    ({"min_tokens_to_keep": 0.5}, f"{INTEGER} 0.5"),
    ({"repetition_penalty": 0}, "must be a number above 0, got 0"),
    ({"frequency_penalty": 101}, "must be a number from -100 to 100, got 101"),
    ({"presence_penalty": -math.inf}, "must be a number from -100 to 100, got -inf"),
    ({"no_repeat_ngram_size": -3}, f"{INTEGER} -3"),
    ({"logit_bias": {"yes": 1.0}}, "must be an integer of at most 64 bits, got 'yes'"),
    ({"logit_bias": {-1: 1.0}}, "must be a token id, got -1"),
    ({"logit_bias": {True: 1.0}}, "must be an integer of at most 64 bits, got True"),
    ({"logit_bias": {5: math.nan}}, "must be a number for token 5, got NaN"),
    ({"logit_bias": {5: "x"}}, "must be a number, got 'x'"),
    ({"logit_bias": [5]}, "must be a mapping, got [5]"),
    ({"logit_bias": dict.fromkeys(range(4097), 0.5)}, "must have at most 4096 entries, got 4097"),
    ({"banned_sequences": [[]]}, "must not contain an empty sequence"),
    ({"banned_sequences": [5]}, "must be a sequence, got 5"),
    ({"banned_sequences": [[1, -1]]}, "must be a token id, got -1"),
    ({"banned_sequences": [[1, 2]] * 8193}, "must have at most 8192 entries, got 8193"),
    ({"banned_sequences": [[1] * 65537]}, "must have at most 65536 tokens in all, got 65537"),
    ({"seed": -1}, f"must be an integer from 0 to {2**64 - 1}, got -1"),
    ({"seed": 2**64}, f"must be an integer from 0 to {2**64 - 1}, got {2**64}"),
    ({"seed": 1.5}, f"must be an integer from 0 to {2**64 - 1}, got 1.5"),
    ({"choice_index": None}, f"{INTEGER} None"),
    ({"min_tokens": 6, "max_tokens": 5}, "must be at most max_tokens (5), got 6"),
    ({"ignore_eos": 1}, "must be True or False, got 1"),
    ({"stop": ""}, "must not contain an empty string"),
    ({"stop": [""]}, "must not contain an empty string"),
    ({"stop": 5}, "must be a sequence, got 5"),
    ({"stop": [5]}, "must be a str, got 5"),
    ({"stop": ["\ud800"]}, "must be valid Unicode text, got '\\ud800'"),
    ({"stop": ["x"] * 65}, "must have at most 64 strings, got 65"),
    ({"stop": "é" * 2049}, "strings must have at most 4096 bytes, got 4098"),
    ({"stop_token_ids": list(range(4097))}, "must have at most 4096 tokens, got 4097"),
    ({"stop_token_ids": "5"}, "must be a sequence, got '5'"),
    ({"stop_token_ids": [-5]}, "must be a token id, got -5"),
    ({"stop_token_ids": [2**31]}, f"must be a token id, got {2**31}"),
    ({"allowed_token_ids": []}, "must not be empty"),
    ({"allowed_token_ids": range(4097)}, "must have at most 4096 tokens, got 4097"),
    ({"allowed_token_ids": [-5]}, "must be a token id, got -5"),
    ({"allowed_token_ids": [1], "regex": "a"}, "cannot be combined with a constraint on the output"),
    ({"max_total_tokens": 0}, "must be at least 1, got 0"),
    ({"logprobs": 101}, "must be at most 100, got 101"),
    ({"prompt_logprobs": 101}, "must be at most 100, got 101"),
    ({"cache_prompt": None}, "must be True or False, got None"),
    ({"prefill_step_size": 0}, "must be at least 1, got 0"),
    ({"temperature": list(range(100))}, f"must be a number, got {str(list(range(100)))[:80]}…"),
]


@pytest.mark.parametrize(("fields", "reason"), REFUSED, ids=[str(fields)[:50] for fields, _ in REFUSED])
def test_what_is_out_of_range_is_refused_by_name(fields: dict[str, Any], reason: str) -> None:
    name = next(iter(fields))
    with pytest.raises(InvalidParameterError) as refusal:
        SamplingParams(**fields)
    assert str(refusal.value) == f"{name}: {reason}"
    assert (refusal.value.field, refusal.value.code) == (name, "invalid_parameter")


def test_the_limits_themselves_are_fine() -> None:
    params = SamplingParams(
        max_tokens=U32,
        temperature=2,
        top_p=1,
        min_p=1.0,
        seed=2**64 - 1,
        frequency_penalty=-100,
        presence_penalty=100,
        logit_bias=MappingProxyType({0: -math.inf, 2**31 - 1: 5}),
        stop=["x"] * 64,
        samplers=[],
        dry_sequence_breakers=["é" * 128] * 64,
        stop_token_ids=range(3),
        allowed_token_ids=range(3),
        logprobs=100,
        prompt_logprobs=100,
        min_tokens=5,
    )
    assert params.stop == ("x",) * 64
    assert params.stop_token_ids == params.allowed_token_ids == (0, 1, 2)
    assert params.samplers == ()
    assert params.logit_bias == {0: -math.inf, 2**31 - 1: 5}
    assert SamplingParams(stop="END").stop == ("END",)


def test_params_are_values() -> None:
    stops, bias = ["a"], {1: 2.0}
    params = SamplingParams(stop=stops, logit_bias=bias)
    stops.append("")
    bias[-1] = 0
    assert (params.stop, params.logit_bias) == (("a",), {1: 2.0})
    assert params == SamplingParams(stop="a", logit_bias={1: 2.0})
    assert pickle.loads(pickle.dumps(params)) == params  # noqa: S301 - made here
    changed = params.replace(top_k=3)
    assert (changed.top_k, changed.stop, params.top_k) == (3, ("a",), 0)
    with pytest.raises(InvalidParameterError, match=r"^top_k: "):
        params.replace(top_k=-3)
    with pytest.raises(
        TypeError, match="`top_q` is not a sampling parameter; the closest are `top_p`, `top_k`"
    ):
        params.replace(top_q=3)
    with pytest.raises(AttributeError):
        params.top_k = 5  # type: ignore[misc]


def test_errors_can_be_pickled() -> None:
    with pytest.raises(InvalidParameterError) as refusal:
        SamplingParams(top_p=2)
    copy = pickle.loads(pickle.dumps(refusal.value))  # noqa: S301 - made here
    assert (type(copy), str(copy), copy.field) == (InvalidParameterError, str(refusal.value), "top_p")


@pytest.mark.parametrize(
    ("options", "whole"), [(ModelOptions, ModelConfig), (SamplingOptions, SamplingParams)]
)
def test_keyword_arguments_are_typed_as_their_fields(options: type, whole: type) -> None:
    fields = {name: kind.__forward_arg__ for name, kind in options.__annotations__.items()}
    assert fields == whole.__annotations__
