from __future__ import annotations

from typing import Any

import pytest

from llmserve import errors
from llmserve.server import refusals
from llmserve.server.error_shapes.openai import DIALECT, render
from llmserve.server.web.errors import fault_of


@pytest.mark.parametrize(
    ("error", "kind", "param", "code"),
    [
        (refusals.FieldError("a.b", "is required"), "invalid_request_error", "a.b", "invalid_value"),
        (errors.InvalidParameterError("x", field="stop"), "invalid_request_error", "stop", "invalid_value"),
        (refusals.UnknownModelError("m"), "invalid_request_error", "model", "model_not_found"),
        (refusals.UnauthorizedError(was_given=True), "authentication_error", None, "invalid_api_key"),
        (errors.QueueFullError("full"), "overloaded_error", None, "queue_full"),
        (refusals.ModelLoadingError(), "overloaded_error", None, "model_loading"),
        (errors.LoadError("x"), "server_error", None, "load_failed"),
        (refusals.NotSupportedError("x"), "invalid_request_error", None, "not_supported"),
        (errors.EmptyPromptError("x"), "invalid_request_error", "prompt", "empty_prompt"),
        (errors.BudgetTooSmallError("x"), "invalid_request_error", "max_tokens", "budget_too_small"),
        (RuntimeError("secret"), "server_error", None, "internal_error"),
    ],
)
def test_the_shape(error: Exception, kind: str, param: str | None, code: str) -> None:
    fault = fault_of(error, DIALECT)
    assert render(fault) == {"error": {"message": fault.message, "type": kind, "param": param, "code": code}}
    assert "secret" not in fault.message


def test_a_long_id_is_not_sent_back_whole() -> None:
    assert len(str(refusals.UnknownModelError("x" * 10_000))) < 250


def test_a_prompt_over_the_context_is_told_in_the_words_that_clients_look_for() -> None:
    error = errors.ContextExceededError("x", prompt_tokens=9, context_length=8)
    shown = render(fault_of(error, DIALECT))
    assert shown == {
        "error": {
            "message": "This model's maximum context length is 8 tokens: the prompt is too long, 9 tokens "
            "leave no room for output",
            "type": "invalid_request_error",
            "param": None,
            "code": "context_length_exceeded",
            "n_prompt_tokens": 9,
            "n_ctx": 8,
        }
    }


def test_a_prompt_that_leaves_no_room_for_a_document_is_too_long_as_well() -> None:
    error = errors.DocumentTooLongError("x", prompt_tokens=1001, context_length=1024, minimum=31, budget=23)
    shown: Any = render(fault_of(error.named("prompt[1]"), DIALECT))
    assert shown["error"].pop("message") == (
        "This model's maximum context length is 1024 tokens: a prompt is too long, prompt[1] of 1001 tokens "
        "leave room for 23 tokens of output, and the shortest document takes 31"
    )
    assert shown["error"] == {
        "type": "invalid_request_error",
        "param": "prompt[1]",
        "code": "context_length_exceeded",
        "n_prompt_tokens": 1001,
        "n_ctx": 1024,
    }


def test_a_document_over_the_whole_context_does_not_blame_the_prompt() -> None:
    error = errors.DocumentTooLongError("x", prompt_tokens=20, context_length=2048, minimum=3008, budget=2028)
    shown: Any = render(fault_of(error, DIALECT))
    assert shown["error"]["message"] == (
        "This model's maximum context length is 2048 tokens: it is too small for the schema, whose shortest "
        "document takes 3008 tokens"
    )


def test_a_bound_of_a_count_is_told_as_one() -> None:
    error = errors.ContextExceededError("x", prompt_tokens=2666, context_length=1024, is_exact=False)
    shown: Any = render(fault_of(error.named("prompt[1]"), DIALECT))
    assert "prompt[1] of at least 2666 tokens" in shown["error"]["message"]
    assert shown["error"]["param"] == "prompt[1]"


def test_an_input_over_the_context_is_told_likewise() -> None:
    error = errors.InputTooLongError("x", prompt_tokens=9, context_length=8, index=3)
    assert render(fault_of(error, DIALECT)) == {
        "error": {
            "message": "This model's maximum context length is 8 tokens: input[3] has 9",
            "type": "invalid_request_error",
            "param": "input[3]",
            "code": "context_length_exceeded",
            "n_prompt_tokens": 9,
            "n_ctx": 8,
        }
    }
