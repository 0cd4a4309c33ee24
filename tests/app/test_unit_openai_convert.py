"""Schema and conversions of the OpenAI dialect, without an engine."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

import pytest

from llmserve import InvalidParameterError, SamplingParams, Token
from llmserve.server.apis.openai import answers, conversations, logprobs, responses_input
from llmserve.server.apis.openai.chat_schema import ChatRequest
from llmserve.server.apis.openai.constraints import with_constraint
from llmserve.server.apis.openai.native_schema import NativeCompletionRequest
from llmserve.server.apis.openai.prompt_logprobs import Offsets
from llmserve.server.apis.openai.sampling import ignored_fields
from llmserve.server.conversation.tool_choice import choose_tools, read_tools
from llmserve.server.fields.sampling import MAX_COUNT
from llmserve.server.generation.logprobs import ShownTokens
from llmserve.server.refusals import FieldError
from llmserve.server.web.fields import wire_name
from llmserve.server.web.schema import read
from llmserve.server.web.token_kinds import MixedPrompt
from llmserve.server.web.wire_names import in_wire_names
from llmserve.types import Timings, TokenLogprobs, Usage
from serving.openai_wire import USER, chat, completion, responses


def params_of(request: ChatRequest) -> SamplingParams:
    params = conversations.chat_params(request)
    return asyncio.run(with_constraint(request, params, request.response_format))


def function(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **fields}}


def test_the_defaults_are_openais() -> None:
    params = conversations.chat_params(chat(seed=5))
    assert params == SamplingParams(temperature=1.0, seed=5)
    assert completion().num_tokens_wanted == 16
    assert completion(n_predict=3).num_tokens_wanted == 3


def test_every_sampling_field_is_passed_on() -> None:
    params = conversations.chat_params(
        chat(
            temperature=0.5,
            top_p=0.25,
            top_k=7,
            min_p=0.125,
            frequency_penalty=0.5,
            presence_penalty=-0.5,
            repeat_penalty=1.5,
            logit_bias={"7": -100, "8": 0.5},
            stop=["a", "b"],
            seed=2**64 - 1,
            ignore_eos=True,
            min_tokens=3,
            cache_prompt=False,
            max_tokens=99,
            max_completion_tokens=9,
            logprobs=True,
            top_logprobs=2,
        )
    )
    assert params == SamplingParams(
        temperature=0.5,
        top_p=0.25,
        top_k=7,
        min_p=0.125,
        frequency_penalty=0.5,
        presence_penalty=-0.5,
        repetition_penalty=1.5,
        logit_bias={7: -100, 8: 0.5},
        stop=("a", "b"),
        seed=2**64 - 1,
        ignore_eos=True,
        min_tokens=3,
        cache_prompt=False,
        max_tokens=9,
        logprobs=2,
    )
    assert conversations.chat_params(chat(repetition_penalty=2.0)).repetition_penalty == 2.0
    assert conversations.chat_params(chat(top_k=-1)).top_k == 0
    assert conversations.chat_params(chat(top_n_sigma=-1)).top_n_sigma == 0
    assert conversations.chat_params(chat(repeat_last_n=-1)).repeat_last_n == MAX_COUNT
    assert conversations.chat_params(chat(dry_penalty_last_n=-1)).dry_penalty_last_n == MAX_COUNT
    assert conversations.chat_params(chat(samplers="kyt")).samplers == ("top_k", "typ_p", "temperature")
    assert conversations.chat_params(chat(samplers=["typ", "minp"])).samplers == ("typ_p", "min_p")
    assert conversations.chat_params(chat(max_tokens=-1)).max_tokens is None
    assert conversations.chat_params(chat(top_p=0)).top_p > 0
    assert conversations.chat_params(chat(logprobs=True)).logprobs == 0


def test_one_limit_counts_and_is_named() -> None:
    limits = {"n_predict": 1, "max_completion_tokens": 2, "max_tokens": 3}
    while limits:
        name, limit = next(iter(limits.items()))
        request = chat(**limits)
        assert conversations.chat_params(request).max_tokens == limit
        assert wire_name(request, "max_tokens") == name
        del limits[name]
    both = {"n_predict": 1, "max_tokens": 3}
    assert completion(**both).num_tokens_wanted == 1
    native = read(NativeCompletionRequest, {"prompt": "a", **both}).value
    assert (native.num_tokens_wanted, wire_name(native, "max_tokens")) == (1, "n_predict")


@pytest.mark.parametrize("name", ["n_predict", "max_completion_tokens", "max_tokens"])
def test_a_field_is_compared_with_the_clients_limit(name: str) -> None:
    request = chat(min_tokens=9, **{name: 5})
    with pytest.raises(InvalidParameterError) as refused:
        conversations.chat_params(request)
    error = in_wire_names(refused.value, request)
    assert str(error) == f"min_tokens: must be at most {name} (5), got 9"
    assert (error.field, error.limit) == ("min_tokens", 5)


@pytest.mark.parametrize(
    ("request_", "engine_name", "name"),
    [
        (chat(response_format={"type": "json_object"}), "json_schema", "response_format"),
        (completion(json_schema={}), "json_schema", "json_schema"),
        (completion(response_format={"type": "json_object"}), "json_schema", "response_format"),
        (responses(text={"format": {"type": "json_object"}}), "json_schema", "text.format"),
        (chat(max_tokens=5), "max_tokens", "max_tokens"),
        (chat(max_completion_tokens=5), "max_tokens", "max_completion_tokens"),
        (chat(n_predict=5), "max_tokens", "n_predict"),
        (chat(), "max_tokens", "max_tokens"),
        (responses(), "max_tokens", "max_output_tokens"),
        (chat(), "prompt", "messages"),
        (responses(), "prompt", "input"),
        (completion(), "prompt", "prompt"),
        (chat(repeat_penalty=2), "repetition_penalty", "repeat_penalty"),
        (chat(), "tools", "tools"),
    ],
)
def test_what_the_engine_refuses_is_named_as_the_client_named_it(
    request_: object, engine_name: str, name: str
) -> None:
    error = in_wire_names(InvalidParameterError("no", field=engine_name), request_)
    assert (error.field, error.reason, str(error)) == (name, "no", f"{name}: no")


def test_random_seeds_are_drawn() -> None:
    seeds = {conversations.chat_params(chat()).seed for _ in range(10)}
    assert len(seeds) == 10
    assert all(seed is not None and 0 <= seed < 2**53 for seed in seeds)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"seed": -2}, "seed must be at least -1, got -2"),
        ({"seed": 2**64}, "seed must be at most 18446744073709551615, got 18446744073709551616"),
        ({"seed": 1.5}, "seed must be an integer, got the number 1.5"),
        ({"temperature": "hot"}, "temperature must be a number, got a string"),
        ({"max_tokens": -2}, "max_tokens must be at least -1, got -2"),
        ({"max_tokens": 2**32}, "max_tokens must be at most 4294967295, got 4294967296"),
        ({"n": 0}, "n must be at least 1, got 0"),
        ({"n": 129}, "n must be at most 128, got 129"),
        ({"logit_bias": {"": 5}}, "logit_bias must have token ids or texts as keys, got an empty text"),
        ({"logit_bias": {"9" * 12: 5}}, "logit_bias must have token ids as keys, got '999999999999'"),
        ({"logit_bias": {"yes": 101}}, "logit_bias.yes must be from -100 to 100, got 101"),
        ({"n_predict": -2}, "n_predict must be at least -1, got -2"),
        ({"stop_token_ids": [-1]}, "stop_token_ids[0] must be from 0 to 2147483647, got -1"),
        ({"logit_bias": {"-1": 5}}, "logit_bias must have token ids as keys, got '-1'"),
        ({"logit_bias": {"1": 1e9}}, "logit_bias.1 must be from -100 to 100, got 1000000000.0"),
        ({"logit_bias": {"1": True}}, "logit_bias.1 must be a number, got a boolean"),
        ({"logit_bias": 5}, "logit_bias must be an object, got the number 5"),
        ({"messages": []}, "messages must have at least one message, got none"),
        ({"stop": [5]}, "stop[0] must be a string, got the number 5"),
        ({"stream": "yes"}, "stream must be a boolean, got a string"),
        ({"stream_options": 5}, "stream_options must be an object, got the number 5"),
        ({"tools": {}}, "tools must be an array, got an object"),
        ({"response_format": "json"}, "response_format must be an object, got a string"),
        ({"grammar": {"type": "gbnf"}}, "grammar must be a string, got an object"),
        ({"top_logprobs": 21}, "top_logprobs must be at most 20, got 21"),
        ({"functions": [{}]}, "functions is not supported: it is the old form of tools"),
        ({"model": 5}, "model must be a string, got the number 5"),
    ],
)
def test_wrong_fields_are_named(body: dict[str, Any], message: str) -> None:
    with pytest.raises(FieldError) as caught:
        chat(**body)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"top_logprobs": 2}, "top_logprobs needs logprobs to be true"),
        ({"max_tokens": 0}, "max_tokens must be at least 1"),
        ({"n_predict": 0}, "n_predict must be at least 1"),
        (
            {"continue_final_message": True, "add_generation_prompt": True},
            "continue_final_message cannot be used with add_generation_prompt",
        ),
        ({"modalities": ["audio"]}, "modalities must be [text]"),
        ({"response_format": {"type": "xml"}}, "response_format.type must be text"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema is required"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}},
            "response_format.json_schema.schema is required",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": []}}},
            "response_format.json_schema.schema must be an object, got an array",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages[0].content[0].type must be text (no images, audio or files), got 'image_url'",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": [5]}, USER]},
            "messages[0].tool_calls[0] must have a function with a name",
        ),
        ({"messages": [{"role": "assistant", "tool_calls": 5}]}, "messages[0].tool_calls must be an array"),
        ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs.messages cannot be set"),
        ({"chat_template_kwargs": {"template": "{{1}}"}}, "chat_template_kwargs.template cannot be set"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type must be function, got 'web_search'"),
        ({"tools": [function("a b")]}, "tools[0].function.name must be 1 to 128 of"),
        ({"tools": [function("<|im_end|>")]}, "tools[0].function.name must be 1 to 128 of"),
        ({"tools": [{"type": "function"}]}, "tools[0].function is required"),
        ({"tools": [{}]}, "tools[0].function is required"),
        ({"tools": [{"function": {}}]}, "tools[0].function.name is required"),
        ({"tools": [function("a"), function("a")]}, "tools[1] has the name of another tool, a"),
        ({"tools": [function("a", parameters=5)]}, "tools[0].function.parameters must be an object"),
        (
            {"tools": [function("a", parameters={"type": "string"})]},
            "tools[0].function.parameters.type must be object",
        ),
        ({"tool_choice": "required"}, "tool_choice is required, but there are no tools"),
        ({"tools": [function("a")], "tool_choice": "maybe"}, "tool_choice must be auto, none or required"),
        (
            {"tools": [function("a")], "tool_choice": function("b")},
            "tool_choice.function.name must be the name of a tool, got 'b'",
        ),
    ],
)
def test_wrong_requests_are_refused(body: dict[str, Any], message: str) -> None:
    request = chat(**body)
    with pytest.raises((FieldError, InvalidParameterError)) as caught:
        conversations.conversation_of(request)
        params_of(request)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("a", ("a",)),
        (["a", "b"], ("a", "b")),
        ([1, 2], ([1, 2],)),
        ([[1], [2, 3]], ([1], [2, 3])),
        (["a", [1]], ("a", [1])),
        ("", ("",)),
        ([1, "a"], (MixedPrompt((1, "a")),)),
        (["a", [1, "b"]], ("a", MixedPrompt((1, "b")))),
        ({"prompt_string": "a"}, ("a",)),
    ],
)
def test_prompts(prompt: Any, expected: Any) -> None:
    assert completion(prompt=prompt).prompt == expected


@pytest.mark.parametrize("prompt", [5, [], {}, [1.5], [[-1]], [[2**31]], [True], [None]])
def test_wrong_prompts(prompt: Any) -> None:
    with pytest.raises(FieldError, match=r"^prompt"):
        completion(prompt=prompt)


def test_known_fields_without_effect() -> None:
    request = chat(stop="x", response_format={"type": "json_object"}, stream_options={"include_usage": True})
    assert ignored_fields(request, params_of(request)) == ["stop", "stream_options"]
    parsed = read(ChatRequest, {"model": "m", "messages": [USER], "user": "u", "store": True})
    assert parsed.unknown == ("user", "store")


def test_choices_of_tools() -> None:
    flat = {"type": "function", "name": "b", "parameters": {"type": "object"}}
    tools = read_tools([function("a"), flat], is_nested=True)
    assert [tool.name for tool in tools] == ["a", "b"]
    assert choose_tools(tools, None) == ("auto", tools)
    assert choose_tools((), None) == ("none", ())
    assert choose_tools((), "auto") == ("none", ())
    assert choose_tools(tools, "none") == ("none", tools)
    assert choose_tools(tools, "required") == ("required", tools)
    assert choose_tools(tools, function("b")) == ("required", tools[1:])
    assert choose_tools(tools, {"type": "function", "name": "b"}) == ("required", tools[1:])
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "a"}]}
    assert choose_tools(tools, allowed) == ("required", tools[:1])


def test_effort_goes_to_the_template() -> None:
    made = conversations.conversation_of(chat(reasoning_effort="low", chat_template_kwargs={"x": 1}))
    assert made.variables == {"reasoning_effort": "low", "x": 1, "add_generation_prompt": True}
    off = conversations.conversation_of(chat(reasoning_effort="none")).variables
    assert off["enable_thinking"] is False
    made = conversations.conversation_of(chat(continue_final_message=True))
    assert made.variables == {"add_generation_prompt": False, "continue_final_message": True}


def token(number: int, data: bytes, text: str, logprob: float = -1.0) -> Token:
    top = ((number, logprob), (9, -math.inf))
    return Token(id=number, bytes=data, text=text, logprobs=TokenLogprobs(logprob=logprob, top=top))


def test_tokens_are_shown_with_their_text() -> None:
    shown = ShownTokens()
    first, second = token(1, b"\xf0\x9f", ""), token(2, b"\x98\x80", "😀")
    assert shown.push("", [first]) == []
    assert shown.push("😀", [second]) == [first, second]
    stop, end = token(3, b"ST", ""), token(4, b"", "")
    assert shown.push("", [stop]) == []
    assert shown.push("", [end]) == []
    assert shown.flush("ST") == []
    rest = ShownTokens()
    assert rest.push("", [end]) == [end]
    assert rest.push("", [stop]) == []
    assert rest.flush(None) == [stop]


def test_log_probabilities_are_json() -> None:
    tokens = [token(1, b"\xf0\x9f", ""), token(2, b"a", "a", -math.inf)]
    texts = {1: b"\xf0\x9f", 2: b"a", 9: b"z"}
    made = logprobs.chat_logprobs(tokens, texts)
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    assert [entry["bytes"] for entry in made["content"]] == [[0xF0, 0x9F], [97]]
    assert made["content"][0]["token"] == "\\xf0\\x9f"  # noqa: S105 - a token of a vocabulary
    assert made["content"][1]["logprob"] == -9999.0
    legacy = logprobs.LegacyLogprobs(2).render(tokens, texts)
    assert legacy["tokens"] == ["bytes:\\xf0\\x9f", "a"]
    assert legacy["text_offset"] == [0, 0]
    assert legacy["top_logprobs"][1] == {"a": -9999.0, "z": -9999.0}
    assert logprobs.LegacyLogprobs(0).render(tokens, texts)["top_logprobs"] is None


@pytest.mark.parametrize(
    ("text", "pieces", "expected"),
    [
        ("a b", [b"a", b" b"], [0, 1]),
        ("a b", [b"<s>", b" a", b" b"], [0, 0, 1]),
        ("ä😀b", ["ä".encode(), b"\xf0\x9f", b"\x98", b"\x80b", b""], [0, 1, 1, 1, 3]),
        ("", [b"<s>"], [0]),
    ],
)
def test_offsets_of_an_echoed_prompt(text: str, pieces: list[bytes], expected: list[int]) -> None:
    offsets = Offsets(text)
    assert [offsets.next(piece) for piece in pieces] == expected


def test_usage_counts_each_prompt_once() -> None:
    def counts(prompt: int) -> Usage:
        return Usage(
            prompt_tokens=prompt, cached_tokens=2, completion_tokens=5, draft_tokens=4, accepted_tokens=3
        )

    assert answers.usage({0: [counts(10), counts(10)], 1: [counts(20)]}, reasoning_tokens=3) == {
        "prompt_tokens": 30,
        "completion_tokens": 15,
        "total_tokens": 45,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {
            "reasoning_tokens": 3,
            "accepted_prediction_tokens": 9,
            "rejected_prediction_tokens": 3,
        },
    }
    small = Usage(prompt_tokens=12, cached_tokens=2, completion_tokens=5)
    timed = answers.timings(small, Timings(decode_s=0.5))
    assert (timed["prompt_n"], timed["cache_n"], timed["predicted_per_second"]) == (10, 2, 8.0)
    assert "draft_n" not in timed
    drafted = answers.timings(counts(10), Timings())
    assert (drafted["draft_n"], drafted["draft_n_accepted"]) == (4, 3)


@pytest.mark.parametrize(
    ("body", "limit"),
    [
        ({}, None),
        ({"thinking_budget_tokens": -1}, None),
        ({"thinking_budget_tokens": 3, "thinking_budget": 3}, 3),
        ({"thinking_budget_tokens": -1, "reasoning_budget_tokens": 5}, 5),
        ({"reasoning_budget": 0}, 0),
        ({"thinking_token_budget": 6}, 6),
    ],
)
def test_the_limit_on_reasoning_by_any_name(body: dict[str, Any], limit: int | None) -> None:
    found = [
        conversations.conversation_of(chat(**body)).reasoning_limit,
        responses_input.conversation_of(responses(**body)).reasoning_limit,
    ]
    assert [given.max_tokens for given in found] == [limit, limit]
    message = {"reasoning_budget_message": "Enough."}
    with pytest.raises(FieldError, match="thinking_budget cannot differ from reasoning_budget"):
        conversations.conversation_of(chat(reasoning_budget=3, thinking_budget=4))
    assert conversations.conversation_of(chat(**message)).reasoning_limit.message == "Enough."
