"""The fields of `/v1/generate/{model}`: what is taken, what is refused, and under which names."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from llmserve.server.apis.sie import convert
from llmserve.server.error_shapes.sie import DIALECT, code_of, render
from llmserve.server.grammars.requested import read_grammar
from llmserve.server.refusals import FieldError
from llmserve.server.web.errors import fault_of
from llmserve.types import SamplingParams

Object = dict[str, Any]
LEAST: Object = {"prompt": "p", "max_new_tokens": 8}
OPTIONAL = (
    "temperature",
    "top_p",
    "stop",
    "stream",
    "frequency_penalty",
    "presence_penalty",
    "seed",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "grammar",
    "options",
    "routing_key",
    "prompt_cache_key",
    "safety_identifier",
)


def refusal(body: Object) -> tuple[int, str, str | None, str]:
    """Status, code, param and message of the refusal of a body."""
    with pytest.raises(FieldError) as raised:
        convert.read_request(body)
    fault = fault_of(raised.value, DIALECT)
    error: Any = render(fault)
    return fault.status, error["error"]["code"], error["error"]["param"], error["error"]["message"]


def params(**fields: Any) -> SamplingParams:
    request = convert.read_request({**LEAST, **fields})
    return convert.sampling_params(request, convert.Stops([], []), None)


INVALID: list[tuple[Object, str]] = [
    ({"prompt": None}, "prompt"),
    ({"prompt": ""}, "prompt"),
    ({"prompt": ["p"]}, "prompt"),
    ({"max_new_tokens": None}, "max_new_tokens"),
    ({"max_new_tokens": 0}, "max_new_tokens"),
    ({"max_new_tokens": 1.5}, "max_new_tokens"),
    ({"max_new_tokens": True}, "max_new_tokens"),
    ({"max_new_tokens": "8"}, "max_new_tokens"),
    ({"temperature": -0.1}, "temperature"),
    ({"temperature": True}, "temperature"),
    ({"temperature": 1e300}, "temperature"),
    ({"top_p": 0}, "top_p"),
    ({"top_p": 1.01}, "top_p"),
    ({"top_p": False}, "top_p"),
    ({"stop": "a"}, "stop"),
    ({"stop": [""]}, "stop[0]"),
    ({"stop": ["a", 1]}, "stop[1]"),
    ({"stream": 1}, "stream"),
    ({"frequency_penalty": 2.1}, "frequency_penalty"),
    ({"presence_penalty": -2.1}, "presence_penalty"),
    ({"seed": 2**63}, "seed"),
    ({"seed": -(2**63) - 1}, "seed"),
    ({"seed": 5.0}, "seed"),
    ({"seed": True}, "seed"),
    ({"logit_bias": []}, "logit_bias"),
    ({"logit_bias": {"a": 1}}, "logit_bias"),
    ({"logit_bias": {"-1": 1}}, "logit_bias"),
    ({"logit_bias": {"01": 1}}, "logit_bias"),
    ({"logit_bias": {"1": 100.5}}, "logit_bias.1"),
    ({"logit_bias": {"1": True}}, "logit_bias.1"),
    ({"logit_bias": {str(i): 0 for i in range(1025)}}, "logit_bias"),
    ({"logprobs": 1, "stream": True}, "logprobs"),
    ({"top_logprobs": 1, "stream": True}, "top_logprobs"),
    ({"top_logprobs": 21, "logprobs": True, "stream": True}, "top_logprobs"),
    ({"top_logprobs": True, "logprobs": True, "stream": True}, "top_logprobs"),
    ({"grammar": "x"}, "grammar"),
    ({"grammar": {}}, "grammar"),
    ({"grammar": {"regex": "a", "ebnf": "b"}}, "grammar"),
    ({"grammar": {"regex": None, "label": "x"}}, "grammar"),
    ({"grammar": {"json_schema": "{}"}}, "grammar.json_schema"),
    ({"grammar": {"regex": ""}}, "grammar.regex"),
    ({"grammar": {"regex": "a" * 4097}}, "grammar.regex"),
    ({"grammar": {"ebnf": "a" * 8193}}, "grammar.ebnf"),
    ({"grammar": {"regex": "a", "label": 1}}, "grammar.label"),
    ({"grammar": {"regex": "a", "strict": "yes"}}, "grammar.strict"),
    ({"grammar": {"json_schema": {"description": "x" * (64 << 10)}}}, "grammar"),
    ({"options": []}, "options"),
    ({"options": {"stop_tokens": "a"}}, "options.stop_tokens"),
    ({"options": {"stop_tokens": [""]}}, "options.stop_tokens[0]"),
    ({"options": {"first_chunk_timeout_s": 0}}, "options.first_chunk_timeout_s"),
    ({"options": {"inter_chunk_timeout_s": -1}}, "options.inter_chunk_timeout_s"),
    ({"options": {"overall_timeout_s": True}}, "options.overall_timeout_s"),
    ({"options": {"profile": "fast"}}, "options.profile"),
    ({"options": {"default_sampling": {"top_k": 0}}}, "options.default_sampling.top_k"),
    ({"options": {"default_sampling": {"top_p": 0}}}, "options.default_sampling.top_p"),
    ({"options": {"default_sampling": {"min_new_tokens": -1}}}, "options.default_sampling.min_new_tokens"),
    ({"options": {"default_sampling": {"min_new_tokens": 9}}}, "options.default_sampling.min_new_tokens"),
    ({"options": {"default_sampling": {"seed": 2**63}}}, "options.default_sampling.seed"),
    ({"routing_key": 1}, "routing_key"),
    ({"prompt_cache_key": ["a"]}, "prompt_cache_key"),
    ({"safety_identifier": 4711}, "safety_identifier"),
]


@pytest.mark.parametrize(("fields", "param"), INVALID, ids=lambda value: str(value)[:50])
def test_what_is_refused_as_invalid(fields: Object, param: str) -> None:
    status, code, named, message = refusal({**LEAST, **fields})
    assert (status, code, named) == (400, "invalid_request", param)
    assert message.startswith(param)
    assert "4711" not in message


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"images": []}, "images"),
        ({"lora_adapter": "x"}, "lora_adapter"),
        ({"max_tokens": 1}, "max_tokens"),
        ({"options": {"top_k": 5}}, "options.top_k"),
        ({"options": {"default_sampling": {"min_p": 0.1}}}, "options.default_sampling.min_p"),
        ({"grammar": {"regex": "a", "lark": "b"}}, "grammar.lark"),
        ({"logprobs": True}, "logprobs"),
        ({"top_logprobs": 0}, "top_logprobs"),
        ({"top_logprobs": 3, "logprobs": True}, "logprobs"),
    ],
)
def test_what_is_refused_as_unsupported(fields: Object, param: str) -> None:
    status, code, named, _ = refusal({**LEAST, **fields})
    assert (status, code, named) == (400, "unsupported_field", param)


@pytest.mark.parametrize("prompt", ["x" * ((4 << 20) + 1), "é" * ((2 << 20) + 1)], ids=["ascii", "utf-8"])
def test_a_prompt_over_4_mib_is_too_long(prompt: str) -> None:
    status, code, named, message = refusal({**LEAST, "prompt": prompt})
    assert (status, code, named) == (413, "INPUT_TOO_LONG", "prompt")
    assert str(4 << 20) in message


def test_what_is_at_the_limits_is_taken() -> None:
    request = convert.read_request(
        {
            "prompt": "é" * (2 << 20),
            "max_new_tokens": 1.0,
            "temperature": 0,
            "top_p": 1,
            "stop": ["a"],
            "stream": True,
            "frequency_penalty": -2,
            "presence_penalty": 2,
            "seed": -(2**63),
            "logit_bias": {str(i): (-1) ** i * 100 for i in range(1024)},
            "logprobs": True,
            "top_logprobs": 20,
            "grammar": {"regex": "a" * 4096, "label": "x", "strict": False},
            "options": {"profile": "default", "stop_tokens": ["a"], "overall_timeout_s": 0.001},
            "routing_key": "",
            "prompt_cache_key": "k",
            "safety_identifier": "who",
        }
    )
    assert request.max_new_tokens == 1
    assert request.sampling["logit_bias"][1] == -100
    assert "who" not in repr(request)
    made = convert.sampling_params(request, convert.Stops([7], []), None)
    assert (made.logprobs, made.seed, made.stop_token_ids) == (20, 2**63, (7,))


def test_null_is_absent() -> None:
    optional = dict.fromkeys(OPTIONAL)
    assert convert.read_request({**LEAST, **optional}) == convert.read_request(LEAST)
    unset: Object = {"default_sampling": {"top_k": None, "seed": None}, "profile": None, "stop_tokens": None}
    assert convert.read_request({**LEAST, "options": unset}) == convert.read_request(LEAST)


def test_defaults() -> None:
    made = params()
    assert (made.temperature, made.top_p, made.top_k, made.min_tokens) == (1.0, 1.0, 0, 0)
    assert (made.frequency_penalty, made.presence_penalty, made.logprobs) == (0, 0, None)
    assert made.max_tokens == 8


def test_with_a_grammar_only_what_was_given_is_not_zero() -> None:
    grammar = {"regex": "a"}
    assert params(grammar=grammar).temperature == 0
    assert params(grammar=grammar, temperature=0.5).temperature == 0.5
    default = {"default_sampling": {"temperature": 0.25, "presence_penalty": 1}}
    made = params(grammar=grammar, options=default)
    assert (made.temperature, made.presence_penalty, made.frequency_penalty) == (0.25, 1, 0)


def test_the_top_level_wins_over_default_sampling() -> None:
    default = {
        "temperature": 0.1,
        "top_p": 0.2,
        "frequency_penalty": 0.3,
        "presence_penalty": 0.4,
        "top_k": 5,
        "min_new_tokens": 6,
        "seed": 7,
    }
    options = {"default_sampling": default}
    made = params(options=options)
    assert (made.temperature, made.top_p, made.top_k, made.min_tokens, made.seed) == (0.1, 0.2, 5, 6, 7)
    assert (made.frequency_penalty, made.presence_penalty) == (0.3, 0.4)
    explicit = {"temperature": 0, "top_p": 1, "frequency_penalty": 0, "presence_penalty": 0, "seed": -1}
    made = params(options=options, **explicit)
    assert (made.temperature, made.top_p, made.seed) == (0, 1, 2**64 - 1)
    assert (made.frequency_penalty, made.presence_penalty) == (0, 0)


def test_seeds_with_a_sign_differ_from_those_without() -> None:
    seeds = [params(seed=seed).seed for seed in (-(2**63), -1, 0, 1, 2**63 - 1)]
    assert len(set(seeds)) == len(seeds)
    assert params().seed != params().seed


def test_lark_stays_as_it_is_and_gbnf_names_the_place_of_a_mistake() -> None:
    lark = 'start: "a" /b+/'
    assert asyncio.run(read_grammar(lark, "grammar.ebnf")) == lark
    with pytest.raises(FieldError, match=r"^grammar.ebnf is not valid GBNF: line 2, column 3: ") as raised:
        asyncio.run(read_grammar('root ::= "a"\n  )', "grammar.ebnf"))
    assert code_of(fault_of(raised.value, DIALECT)) == "invalid_request"
