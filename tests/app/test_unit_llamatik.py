"""Schema and conversions of the Llamatik dialect."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from llmserve import (
    BudgetTooSmallError,
    Completion,
    Delta,
    InvalidParameterError,
    LoadError,
    ModelConfig,
    ModelInfo,
    SamplingParams,
    Timings,
    Usage,
)
from llmserve.server.apis.llamatik import convert
from llmserve.server.apis.llamatik.params import Params
from llmserve.server.apis.llamatik.schema import (
    AnyGenerationRequest,
    ChatTemplateRequest,
    ContextRequest,
    ContinueRequest,
    JsonContextRequest,
    JsonPromptRequest,
    MtpInitRequest,
    ParamsFields,
    PromptRequest,
)
from llmserve.server.fields.sampling import sampling_params
from llmserve.server.refusals import FieldError
from llmserve.server.web.errors import fault_of
from llmserve.server.web.schema import read

_ANYTHING: dict[str, Any] = {field.name: None for field in dataclasses.fields(ModelInfo)}
INFO = ModelInfo(
    **{**_ANYTHING, "context_length": 777, "num_threads": 3, "backend": "CUDA0", "num_gpu_layers": 5}
)

SEED_EXAMPLE = {
    "temperature": 0.7,
    "maxTokens": 512,
    "topP": 0.95,
    "topK": 40,
    "repeatPenalty": 1.1,
    "contextLength": 4096,
    "numThreads": 4,
    "useMmap": True,
    "flashAttention": False,
    "batchSize": 512,
    "gpuLayers": 0,
}


def fields(**body: Any) -> ParamsFields:
    return read(ParamsFields, body).value


def params(**body: Any) -> SamplingParams:
    request = read(PromptRequest, {"prompt": "p", "seed": 1, **body}).value
    return sampling_params({**convert.DEFAULT_SAMPLING, **request.sampling})


def test_sampling_starts_at_the_values_of_the_example() -> None:
    assert params() == SamplingParams(
        temperature=0.7, max_tokens=512, top_p=0.95, top_k=40, repetition_penalty=1.1, seed=1
    )


def test_every_sampling_field_is_passed_on() -> None:
    made = params(
        temperature=0,
        maxTokens=7,
        topP=0.5,
        topK=0,
        repeatPenalty=1,
        minP=0.25,
        seed=2**64 - 1,
        stop=["a", "b"],
        frequencyPenalty=0.5,
        presencePenalty=-0.5,
    )
    assert made == SamplingParams(
        temperature=0,
        max_tokens=7,
        top_p=0.5,
        min_p=0.25,
        seed=2**64 - 1,
        stop=("a", "b"),
        frequency_penalty=0.5,
        presence_penalty=-0.5,
    )


def test_a_top_p_of_0_keeps_the_likeliest_token() -> None:
    assert 0 < params(topP=0).top_p < 1e-5


def test_a_random_seed_is_one_that_every_json_reader_keeps() -> None:
    seeds = {params(seed=-1).seed for _ in range(20)}
    assert len(seeds) > 1
    assert all(seed is not None and 0 <= seed < 2**53 for seed in seeds)


@pytest.mark.parametrize("seed", [-2, 2**64, 1.5, "7", True])
def test_other_seeds_are_refused(seed: object) -> None:
    with pytest.raises(FieldError) as caught:
        fields(seed=seed)
    assert caught.value.field == "seed"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"temperature": True}, "temperature must be a number, got a boolean"),
        ({"temperature": -0.1}, "temperature must be at least 0, got -0.1"),
        ({"maxTokens": 0}, "maxTokens must be at least 1, got 0"),
        ({"maxTokens": -1}, "maxTokens must be at least 1, got -1"),
        ({"maxTokens": 1.5}, "maxTokens must be an integer, got the number 1.5"),
        ({"maxTokens": 2**32}, "maxTokens must be at most 4294967295, got 4294967296"),
        ({"topP": 1.5}, "topP must be at most 1, got 1.5"),
        ({"topK": "40"}, "topK must be an integer, got a string"),
        ({"topK": -1}, "topK must be at least 0, got -1"),
        ({"repeatPenalty": []}, "repeatPenalty must be a number, got an array"),
        ({"minP": 2}, "minP must be at most 1, got 2"),
        ({"stop": 5}, "stop must be a string or an array of strings, got the number 5"),
        ({"stop": ["a", 5]}, "stop[1] must be a string, got the number 5"),
        ({"contextLength": -1}, "contextLength must be at least 0, got -1"),
        ({"contextLength": 2**27 + 1}, "contextLength must be at most 134217728, got 134217729"),
        ({"numThreads": -2}, "numThreads must be at least -1, got -2"),
        ({"numThreads": "4"}, "numThreads must be an integer, got a string"),
        ({"useMmap": 1}, "useMmap must be a boolean, got the number 1"),
        ({"flashAttention": "yes"}, "flashAttention must be a boolean, got a string"),
        ({"batchSize": -1}, "batchSize must be at least 0, got -1"),
        ({"gpuLayers": -2}, "gpuLayers must be at least -1, got -2"),
        ({"gpuLayers": True}, "gpuLayers must be an integer, got a boolean"),
        ({"seed": 2**64}, "seed must be at most 18446744073709551615, got 18446744073709551616"),
        ({"frequencyPenalty": 101}, "frequencyPenalty must be at most 100, got 101"),
    ],
)
def test_wrong_fields_are_named(body: dict[str, Any], message: str) -> None:
    with pytest.raises(FieldError) as caught:
        fields(**body)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"repeatPenalty": 0}, "repeatPenalty: must be a number above 0, got 0"),
        ({"stop": [""]}, "stop: must not contain an empty string"),
        ({"stop": ["x"] * 65}, "stop: must have at most 64 strings, got 65"),
    ],
)
def test_what_the_engine_refuses_is_named_as_on_this_wire(body: dict[str, Any], message: str) -> None:
    kept = Params(ModelConfig())
    with pytest.raises(InvalidParameterError) as caught:
        kept.check(fields(**body))
    fault = fault_of(caught.value, "llamatik")
    assert (fault.status, convert.render_fault(fault)) == (400, {"error": message})


def test_names_in_messages_of_failed_loads() -> None:
    error = LoadError("must be from 1 to 5, got 9", reason="invalid_option", field="context_length")
    fault = fault_of(error, "llamatik")
    assert (fault.status, convert.fault_message(fault)) == (400, "contextLength: must be from 1 to 5, got 9")
    error = LoadError("must be from 1 to 512, got 513", reason="invalid_option", field="threads")
    assert convert.fault_message(fault_of(error, "llamatik")).startswith("numThreads: ")
    error = LoadError("no such file", reason="invalid_option", field="lora")
    assert convert.fault_message(fault_of(error, "llamatik")) == "lora: no such file"
    refusal = InvalidParameterError("no JSON", field="json_schema")
    assert convert.fault_message(fault_of(refusal, "llamatik")) == "jsonSchema: no JSON"
    budget = BudgetTooSmallError("the shortest document takes 9 tokens", minimum=9, budget=1)
    message = convert.fault_message(fault_of(budget, "llamatik"))
    assert message == "maxTokens: the shortest document takes 9 tokens"


def test_params_merge_and_absent_fields_keep_their_value() -> None:
    kept = Params(ModelConfig(threads=2))
    kept.merge(fields(temperature=0.5, stop="x"))
    kept.merge(fields(topK=5, contextLength=100))
    kept.merge(fields(gpuLayers=3, temperature=None))
    assert kept.sampling == {**convert.DEFAULT_SAMPLING, "temperature": 0.5, "top_k": 5, "stop": ("x",)}
    assert kept.config == ModelConfig(threads=2, context_length=100, gpu_layers=3)
    assert kept.config_with(fields(gpuLayers=-1)) == ModelConfig(threads=2, context_length=100)
    assert kept.config.gpu_layers == 3


def test_load_options_nobody_set_are_the_servers_own() -> None:
    server = ModelConfig(context_length=55, threads=7, flash_attention=True, gpu_layers=2)
    assert Params(server).config == server


def test_numbers_that_leave_a_load_option_to_the_server() -> None:
    kept = Params(ModelConfig(context_length=55, threads=7, batch_size=64))
    kept.merge(fields(contextLength=100, numThreads=2, batchSize=128))
    assert kept.config == ModelConfig(context_length=100, threads=2, batch_size=128)
    kept.merge(fields(contextLength=0, numThreads=-1, batchSize=0))
    assert kept.config == ModelConfig(context_length=55, threads=7, batch_size=64)


def test_every_load_option_is_passed_on() -> None:
    kept = Params(ModelConfig())
    kept.merge(fields(**SEED_EXAMPLE))
    assert kept.config == ModelConfig(
        context_length=4096, threads=4, use_mmap=True, flash_attention=False, batch_size=512, gpu_layers=0
    )


def test_values_in_force() -> None:
    kept = Params(ModelConfig())
    shown = convert.values_in_force(kept.sampling, kept.config, None)
    assert shown == {
        **{
            name: SEED_EXAMPLE[name] for name in ("temperature", "maxTokens", "topP", "topK", "repeatPenalty")
        },
        "seed": -1,
        "minP": 0.0,
        "stop": (),
        "frequencyPenalty": 0.0,
        "presencePenalty": 0.0,
        "contextLength": None,
        "numThreads": None,
        "useMmap": True,
        "flashAttention": None,
        "batchSize": 512,
        "gpuLayers": -1,
    }
    kept.merge(fields(**{**SEED_EXAMPLE, "stop": ["."]}))
    loaded = convert.values_in_force(kept.sampling, kept.config, INFO)
    assert loaded == {
        **shown,
        **SEED_EXAMPLE,
        "stop": (".",),
        "contextLength": 777,
        "numThreads": 3,
        "backend": "CUDA0",
        "offloadedLayers": 5,
    }


@pytest.mark.parametrize(
    ("body", "roles", "user"),
    [
        ({"systemPrompt": "S", "contextBlock": "C", "userPrompt": "U"}, ["system", "user"], "C\n\nU"),
        ({"systemPrompt": "", "contextBlock": "", "userPrompt": "U"}, ["user"], "U"),
        ({"userPrompt": "U"}, ["user"], "U"),
        ({"systemPrompt": "S", "contextBlock": "C", "userPrompt": ""}, ["system", "user"], "C"),
    ],
)
def test_turns_of_a_context(body: dict[str, Any], roles: list[str], user: str) -> None:
    turns = convert.messages(read(ContextRequest, body).value)
    assert [turn["role"] for turn in turns] == roles
    assert turns[-1]["content"] == user


def test_a_context_without_a_user_turn_is_refused() -> None:
    with pytest.raises(FieldError, match=r"^userPrompt and contextBlock are both empty$"):
        convert.messages(read(ContextRequest, {"systemPrompt": "S", "userPrompt": ""}).value)
    with pytest.raises(FieldError, match=r"^userPrompt is required$"):
        read(ContextRequest, {"systemPrompt": "S", "contextBlock": "C"})


@pytest.mark.parametrize(
    ("cls", "extra"), [(JsonPromptRequest, {"prompt": "p"}), (JsonContextRequest, {"userPrompt": "u"})]
)
def test_json_schemas(cls: type[AnyGenerationRequest], extra: dict[str, str]) -> None:
    def schema(**body: Any) -> object:
        return convert.json_schema(read(cls, {**extra, **body}).value)

    assert schema() is True
    assert schema(jsonSchema=None) is True
    assert schema(jsonSchema='{"type":"object"}') == '{"type":"object"}'
    # Properties keep their order.
    assert schema(jsonSchema={"z": 1, "a": 2}) == '{"z":1,"a":2}'
    assert schema(jsonSchema={}) == "{}"
    assert schema(jsonSchema="") == ""
    wrongs: tuple[object, ...] = (5, [], True)
    for wrong in wrongs:
        with pytest.raises(FieldError, match=r"^jsonSchema must be a string or an object, got "):
            schema(jsonSchema=wrong)
    assert convert.json_schema(read(PromptRequest, {"prompt": "p"}).value) is None


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        (None, "messages is required"),
        ("hello", "messages must be an array, got a string"),
        ([], "messages must have at least one message, got none"),
        (["hello"], "messages[0] must be an object, got a string"),
        ([{"content": "x"}], "messages[0].role is required"),
        ([{"role": 5}], "messages[0].role must be a string, got the number 5"),
        (
            [{"role": "user", "content": "x"}, {"role": "user", "content": 5}],
            "messages[1].content must be a string, an array of parts or null, got the number 5",
        ),
    ],
)
def test_wrong_messages_are_named(messages: object, message: str) -> None:
    with pytest.raises(FieldError) as caught:
        read(ChatTemplateRequest, {"messages": messages})
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "modelPath is required"),
        ({"modelPath": "m", "draftLen": 0}, "draftLen must be at least 1, got 0"),
        ({"modelPath": "m", "draftLen": 9}, "draftLen must be at most 8, got 9"),
        ({"modelPath": "m", "draftLen": "3"}, "draftLen must be an integer, got a string"),
        ({"modelPath": "m", "adaptive": 1}, "adaptive must be a boolean, got the number 1"),
    ],
)
def test_wrong_mtp_bodies(body: dict[str, Any], message: str) -> None:
    with pytest.raises(FieldError) as caught:
        read(MtpInitRequest, body)
    assert str(caught.value) == message
    assert read(MtpInitRequest, {"modelPath": "m"}).value == MtpInitRequest(model_path="m", draft_len=3)


COMPLETION = Completion(
    text="Hällo",
    tokens=(),
    finish_reason="length",
    usage=Usage(prompt_tokens=5, cached_tokens=2, completion_tokens=3, draft_tokens=0, accepted_tokens=0),
    timings=Timings(queue_s=0.0011111, prefill_s=0.5, decode_s=2, time_to_first_token_s=0.6),
    seed=1,
    stop=None,
)
END = {
    "finishReason": "length",
    "usage": {
        "promptTokens": 5,
        "completionTokens": 3,
        "cachedTokens": 2,
        "draftTokens": 0,
        "acceptedTokens": 0,
    },
    "timings": {"queueMs": 1.111, "prefillMs": 500.0, "decodeMs": 2000},
}


def test_answers_and_frames() -> None:
    assert convert.answer(COMPLETION) == {"text": "Hällo", **END}
    done = convert.done_frame(COMPLETION).decode()
    assert done.startswith("data: {")
    assert done.endswith("}\n\n")
    assert json.loads(done.removeprefix("data: ")) == {"event": "done", **END}
    delta = convert.delta_frame(Delta(text="né\n", tokens=()))
    assert delta.decode() == 'data: {"event":"delta","text":"né\\n"}\n\n'
    assert convert.delta_frame(Delta(text="", tokens=())) == b""
    assert convert.error_frame("no").decode() == 'data: {"event":"error","message":"no"}\n\n'


@pytest.mark.parametrize(
    ("body", "given", "field"),
    [
        (PromptRequest, {"prompt": "a", "systemPrompt": "b"}, "systemPrompt"),
        (ContinueRequest, {"prompt": "a", "contextBlock": "b"}, "contextBlock"),
        (JsonPromptRequest, {"prompt": "a", "userPrompt": "b"}, "userPrompt"),
        (ContextRequest, {"userPrompt": "a", "prompt": "b"}, "prompt"),
        (JsonContextRequest, {"userPrompt": "a", "prompt": "b"}, "prompt"),
    ],
)
def test_texts_of_other_routes_are_refused(body: type, given: dict[str, Any], field: str) -> None:
    with pytest.raises(FieldError, match=f"^{field} is not supported: use "):
        read(body, given)
    assert read(body, {**given, field: ""}).unknown == ()
