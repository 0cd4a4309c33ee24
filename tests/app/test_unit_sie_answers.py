"""Answers of `/v1/generate/{model}`: events, log-probabilities, errors and time limits, without an engine."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

import anyio
import pytest

from llmserve import errors
from llmserve.server import refusals
from llmserve.server.apis.sie import convert
from llmserve.server.apis.sie.schema import GenerateOptions, GenerateRequest
from llmserve.server.error_shapes.sie import DIALECT, render
from llmserve.server.generation.deadlines import Deadlines
from llmserve.server.web.errors import fault_of
from llmserve.server.web.wire_names import in_wire_names
from llmserve.types import Delta, Token, TokenLogprobs


def event(frame: bytes) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(frame.removeprefix(b"data: "))
    return made


def delta(text: str, *tokens: Token) -> Delta:
    return Delta(text=text, tokens=tokens)


def test_a_delta_without_text_is_no_event() -> None:
    frames = convert.EventFrames("r")
    half = Token(id=1, bytes=b"\xc3", text="")
    assert frames.delta(delta("", half), None) == b""
    assert event(frames.delta(delta("é", half), None)) == {
        "request_id": "r",
        "seq": 0,
        "text_delta": "é",
        "done": False,
    }


def test_log_probabilities_of_control_tokens_halves_and_what_is_impossible() -> None:
    logprobs = TokenLogprobs(logprob=-math.inf, top=((3, -0.5), (2, -1.5)))
    token = Token(id=1, bytes=b"", text="", logprobs=logprobs)
    given = delta("", token)
    assert convert.shown_tokens(given) == {1, 2, 3}
    pieces = {1: b"<|im_end|>", 2: b"\xc3", 3: b""}
    [made] = event(convert.EventFrames("r").delta(given, pieces))["logprobs"]
    assert made == {
        "token": "<|im_end|>",
        "logprob": -9999.0,
        "bytes": list(b"<|im_end|>"),
        "top_logprobs": [
            {"token": "", "logprob": -0.5, "bytes": None},
            {"token": "\ufffd", "logprob": -1.5, "bytes": [0xC3]},
        ],
    }


@pytest.mark.parametrize(
    ("error", "status", "code", "param"),
    [
        (errors.InvalidParameterError("no", field="stop"), 400, "invalid_request", "stop"),
        (errors.InvalidParameterError("no", field="top_k"), 400, "invalid_request", None),
        (errors.BudgetTooSmallError("no"), 400, "invalid_request", "max_new_tokens"),
        (errors.EmptyPromptError("x"), 400, "invalid_request", None),
        (errors.QueueFullError("x"), 503, "QUEUE_FULL", None),
        (refusals.SessionsFullError(3), 503, "QUEUE_FULL", None),
        (refusals.ServerDrainingError(), 503, "QUEUE_FULL", None),
        (refusals.ServerStoppingError(), 503, "generation_cancelled", None),
        (refusals.GenerationCancelledError(), 503, "generation_cancelled", None),
        (errors.EngineClosedError("x"), 503, "generation_cancelled", None),
        (refusals.ModelLoadingError(), 503, "MODEL_LOADING", None),
        (errors.LoadError("x"), 502, "MODEL_LOAD_FAILED", None),
        (errors.GenerationError("x"), 500, "inference_error", None),
        (errors.EngineDeadError("x"), 500, "inference_error", None),
        (RuntimeError("secret"), 500, "inference_error", None),
        (refusals.SessionExpiredError(), 410, "session_expired", None),
        (refusals.UnknownModelError("m"), 404, "MODEL_NOT_FOUND", "model"),
        (refusals.RouteNotFoundError(), 404, "invalid_request", None),
        (refusals.MethodNotAllowedError("GET", ("POST",)), 405, "invalid_request", None),
        (refusals.ForeignHostError(), 403, "invalid_request", None),
    ],
)
def test_errors(error: Exception, status: int, code: str, param: str | None) -> None:
    fault = fault_of(in_wire_names(error, GenerateRequest), DIALECT)
    made: Any = render(fault)
    assert (fault.status, made["error"]["code"]) == (status, code)
    if param is not None:
        assert made["error"]["param"] == param
    assert "secret" not in made["error"]["message"]


def test_fields_of_the_engine_have_their_names_on_this_wire() -> None:
    error = errors.InvalidParameterError("is odd", field="regex")
    made: Any = render(fault_of(in_wire_names(error, GenerateRequest), DIALECT))
    assert made["error"]["param"] == "grammar.regex"
    assert made["error"]["message"] == "grammar.regex: is odd"


@pytest.mark.parametrize(
    ("options", "num_outputs", "field"),
    [
        (GenerateOptions(first_chunk_timeout_s=0.01, inter_chunk_timeout_s=60), 0, "first_chunk_timeout_s"),
        (GenerateOptions(first_chunk_timeout_s=60, inter_chunk_timeout_s=0.01), 1, "inter_chunk_timeout_s"),
        (GenerateOptions(first_chunk_timeout_s=60, overall_timeout_s=0.01), 0, "overall_timeout_s"),
        (GenerateOptions(inter_chunk_timeout_s=60, overall_timeout_s=0.01), 1, "overall_timeout_s"),
    ],
)
def test_the_limit_that_passes_first_is_named(options: GenerateOptions, num_outputs: int, field: str) -> None:
    async def run() -> None:
        deadlines = Deadlines(convert.time_limits(options))

        async def output() -> int:
            return 1

        for _ in range(num_outputs):
            await deadlines.next_output(output)
        with pytest.raises(refusals.GenerationTimeoutError) as raised:
            await deadlines.next_output(anyio.sleep_forever)
        assert raised.value.field == f"options.{field}"

    asyncio.run(run())


def test_no_limit_waits() -> None:
    async def run() -> None:
        deadlines = Deadlines(convert.time_limits(GenerateOptions()))
        event = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(deadlines.wait, event.wait)
            await anyio.lowlevel.checkpoint()
            event.set()

    asyncio.run(run())
