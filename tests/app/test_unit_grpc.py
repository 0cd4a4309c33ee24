"""The gRPC dialect's pure functions, and its generated code."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from grpc_code import FOLDER, generate
from llmserve import Delta, Token, errors
from llmserve.server import refusals
from llmserve.server.apis.completions.convert import sampling_params
from llmserve.server.apis.completions.schema import CompletionRequest
from llmserve.server.apis.grpc import convert, schema
from llmserve.server.apis.grpc import llmserver_pb2 as pb
from llmserve.server.refusals import FieldError, MalformedBodyError
from llmserve.server.trust.local import is_local
from llmserve.server.web.error_table import RULES
from llmserve.server.web.errors import fault_of
from llmserve.server.web.schema import read
from serving.grpc_client import generated


def predict(**fields: Any) -> CompletionRequest:
    message = pb.PredictRequest(**{"model": "m", "prompt": "p", **fields})
    return schema.read_predict(message.SerializeToString()).value


def over_http(**fields: Any) -> CompletionRequest:
    return read(CompletionRequest, {"model": "m", "prompt": "p", **fields}).value


def test_the_generated_code_is_that_of_the_proto() -> None:
    for name, text in generate().items():
        assert (FOLDER / name).read_text() == text, f"{name} is not up to date: run `make proto`"


def test_a_clients_own_module_lives_beside_ours() -> None:
    theirs, _ = generated()
    assert theirs.PredictRequest is not pb.PredictRequest
    message = theirs.PredictRequest(model="m", options=theirs.PredictRequest.Options(random_seed=7))
    assert pb.PredictRequest.FromString(message.SerializeToString()).options.random_seed == 7


def test_the_contracts_field_numbers() -> None:
    def numbers(message: Any) -> dict[str, int]:
        return {field.name: field.number for field in message.DESCRIPTOR.fields}

    assert numbers(pb.LoadModelRequest) == {"path": 1, "trust_remote_code": 2, "backend": 3}
    assert numbers(pb.LoadModelResponse) == {"progress": 1}
    names = ["model", "prompt", "stream", "max_tokens", "temperature", "top_p", "top_k", "options"]
    assert numbers(pb.PredictRequest) == {name: number for number, name in enumerate(names, 1)}
    options = [
        "min_p",
        "min_tokens_to_keep",
        "max_kv_size",
        "prefill_step_size",
        "kv_bits",
        "kv_group_size",
        "quantized_kv_start",
        "repetition_penalty",
        "length_penalty",
        "diversity_penalty",
        "no_repeat_ngram_size",
        "random_seed",
    ]
    assert numbers(pb.PredictRequest.Options) == {name: number for number, name in enumerate(options, 1)}
    assert all(field.has_presence for field in pb.PredictRequest.Options.DESCRIPTOR.fields)
    assert numbers(pb.PredictResponse) == {"message": 1, "token": 2, "tokens": 3}
    assert dict(pb.Backend.items()) == {
        "BACKEND_UNSPECIFIED": 0,
        "BACKEND_LLAMA_CPP": 1,
        "BACKEND_MLX": 2,
        "BACKEND_TF": 3,
        "BACKEND_PT": 4,
    }
    assert dict(pb.ModelStatus.items()) == {"UNKNOWN": 0, "LOADING": 1, "LOADED": 2, "FAILED": 3}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"max_tokens": 5, "temperature": 0.7, "top_p": 0.95, "top_k": 40, "stream": True},
        {"max_tokens": -3, "temperature": -1.0, "top_p": -0.5, "top_k": -2},
        {"options": {}},
        {"options": {"min_p": 0.0, "random_seed": 0, "min_tokens_to_keep": 0, "repetition_penalty": 0.0}},
        {"options": {"min_p": 0.1, "repetition_penalty": 1.3, "random_seed": -1, "max_kv_size": -5}},
        {"options": {"kv_bits": 0, "kv_group_size": 64, "quantized_kv_start": 0, "length_penalty": 1e30}},
        {"options": {"no_repeat_ngram_size": 3, "prefill_step_size": 7, "diversity_penalty": -0.25}},
    ],
)
def test_fields_mean_what_they_mean_over_http(fields: dict[str, Any]) -> None:
    assert predict(**fields) == over_http(**fields)


def test_defaults_are_greedy_with_min_p() -> None:
    params = sampling_params(predict(max_tokens=5))
    assert (params.temperature, params.top_p, params.top_k, params.min_p) == (0, 1, 0, 0.05)
    assert (params.min_tokens_to_keep, params.repetition_penalty, params.max_tokens) == (1, 1, 5)


def test_an_absent_prompt_is_an_empty_one() -> None:
    assert predict(prompt="").prompt == ""


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"model": ""}, "model is required"),
        ({"top_p": 1.25}, "top_p must be at most 1, got 1.25"),
        ({"top_p": 1.1}, "top_p must be at most 1, got 1.1"),
        ({"temperature": float("nan")}, "temperature must be a finite number, got nan"),
        ({"temperature": float("inf")}, "temperature must be a finite number, got inf"),
        ({"options": {"random_seed": -2}}, "options.random_seed must be at least -1, got -2"),
        ({"options": {"min_p": 2}}, "options.min_p must be at most 1, got 2.0"),
    ],
)
def test_bad_fields_are_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(FieldError) as caught:
        predict(**fields)
    assert str(caught.value) == message


@pytest.mark.parametrize("data", [b"\xff\xff", b"\x12\x02\xff\xfe", b"\x0a\x05m"])
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedBodyError, match="the message is not a valid PredictRequest"):
        schema.read_predict(data)
    with pytest.raises((MalformedBodyError, FieldError)):
        schema.read_load(data)


def test_unknown_fields_are_named_by_number_and_bounded() -> None:
    # Field 99 of the message and field 15 of its options, both 1.
    data = pb.PredictRequest(model="m").SerializeToString() + b"\x98\x06\x01\x42\x02\x78\x01"
    assert schema.read_predict(data).unknown == ("field_99", "options.field_15")
    assert schema.read_load(b"\x0a\x01m\x98\x06\x01").unknown == ("field_99",)
    with pytest.raises(
        FieldError, match="the message must have at most 16384 bytes apart from its texts, got 3"
    ):
        schema.read_predict(data + b"\x98\x06\x01" * 10_000)
    long = pb.PredictRequest(model="m", prompt="é" * 100_000).SerializeToString()
    assert schema.read_predict(long).value.prompt == "é" * 100_000


@pytest.mark.parametrize(
    ("fields", "ignored"),
    [
        ({}, ()),
        ({"backend": pb.BACKEND_UNSPECIFIED}, ()),
        ({"backend": pb.BACKEND_LLAMA_CPP, "trust_remote_code": False}, ()),
        ({"backend": pb.BACKEND_MLX}, ("backend",)),
        ({"backend": 77, "trust_remote_code": True}, ("trust_remote_code", "backend")),
    ],
)
def test_what_a_load_has_no_use_for(fields: dict[str, Any], ignored: tuple[str, ...]) -> None:
    parsed = schema.read_load(pb.LoadModelRequest(path="p", **fields).SerializeToString())
    assert (parsed.value.path, parsed.unknown) == ("p", ignored)


def test_one_message_per_token_with_its_raw_bytes() -> None:
    first, second = (
        Token(id=5, bytes=b"\xf0\x9f", text=""),
        Token(id=6, bytes=b"\x99\x82", text="\N{SLIGHTLY SMILING FACE}"),
    )
    messages = convert.TokenMessages()
    made = [
        *messages.render(Delta(text="", tokens=(first,))),
        *messages.render(Delta(text="", tokens=(second, first))),
    ]
    assert [(m.message, m.token, m.tokens) for m in made] == [
        (b"\xf0\x9f", 5, 1),
        (b"\x99\x82", 6, 2),
        (b"\xf0\x9f", 5, 3),
    ]


def test_every_status_of_the_table_is_one_of_grpc() -> None:
    for rule in RULES.values():
        for name in (rule.grpc_status, *rule.grpc_reasons.values()):
            assert name in grpc.StatusCode.__members__


@pytest.mark.parametrize(
    ("error", "code", "retry_after"),
    [
        (FieldError("top_p", "is odd"), "INVALID_ARGUMENT", None),
        (MalformedBodyError("x"), "INVALID_ARGUMENT", None),
        (errors.ContextExceededError("x"), "INVALID_ARGUMENT", None),
        (errors.EmptyPromptError("x"), "INVALID_ARGUMENT", None),
        (refusals.UnknownModelError(), "NOT_FOUND", None),
        (refusals.ModelLoadingError(), "UNAVAILABLE", "1"),
        (errors.QueueFullError("x", retry_after_s=2.5), "RESOURCE_EXHAUSTED", "3"),
        (refusals.SessionsFullError(3), "RESOURCE_EXHAUSTED", "1"),
        (refusals.CallCancelledError(), "CANCELLED", None),
        (refusals.LoadAbandonedError(), "CANCELLED", None),
        (refusals.ServerDrainingError(), "UNAVAILABLE", "5"),
        (refusals.ServerStoppingError(), "UNAVAILABLE", "5"),
        (refusals.UnauthorizedError(was_given=False), "UNAUTHENTICATED", None),
        (refusals.PathNotAllowedError("path"), "PERMISSION_DENIED", None),
        (refusals.PathNotLocalError("MODELS_DIR"), "PERMISSION_DENIED", None),
        (errors.LoadError("x", reason="not_found"), "NOT_FOUND", None),
        (errors.LoadError("x", reason="not_gguf"), "INVALID_ARGUMENT", None),
        (errors.LoadError("x", reason="not_enough_memory"), "RESOURCE_EXHAUSTED", None),
        (errors.LoadError("x"), "INTERNAL", None),
        (errors.GenerationError("x"), "INTERNAL", None),
        (errors.EngineDeadError("x"), "INTERNAL", None),
        (RuntimeError("/secret"), "INTERNAL", None),
    ],
)
def test_statuses(error: Exception, code: str, retry_after: str | None) -> None:
    status = convert.status_of(fault_of(error, "grpc"))
    assert status.code.name == code
    assert dict(status.trailer) == ({} if retry_after is None else {"retry-after": retry_after})
    assert "/secret" not in status.details


def test_details_name_fields_as_the_proto_does() -> None:
    error = errors.InvalidParameterError("must be less, got 7", field="min_p")
    assert convert.status_of(fault_of(error, "grpc")).details == "options.min_p: must be less, got 7"


@pytest.mark.parametrize(
    ("peer", "address", "expected"),
    [
        ("ipv4:127.0.0.1:5000", ("127.0.0.1", 5000), True),
        ("ipv4:10.1.2.3:5000", ("10.1.2.3", 5000), False),
        ("ipv6:[::1]:5000", ("::1", 5000), True),
        ("ipv6:%5B::1%5D:5000", ("::1", 5000), True),
        ("ipv6:%5B::ffff:127.0.0.1%5D:5000", ("::ffff:127.0.0.1", 5000), True),
        ("ipv6:%5Bfe80::1%25eth0%5D:5000", ("fe80::1%eth0", 5000), False),
        ("unix:/run/llmserve.sock", ("/run/llmserve.sock", None), True),
        ("unix:", ("", None), True),
        ("", None, False),
        ("vsock:1:2", None, False),
        ("ipv4:127.0.0.1", None, False),
    ],
)
def test_who_is_local(peer: str, address: tuple[str, int | None] | None, expected: bool) -> None:
    scope = convert.scope_of((), peer)
    assert scope["server"] == scope["client"] == address
    assert is_local(scope) is expected
    assert not is_local(convert.scope_of((("x-forwarded-for", "192.0.2.1"),), peer))
