from __future__ import annotations

import logging

import pytest

from llmserve import errors
from llmserve.server import refusals
from llmserve.server.web.error_table import RULES, retry_after, rule_for
from llmserve.server.web.errors import fault_headers, fault_of
from llmserve.server.web.headers import ignored_header


def every_class(base: type[BaseException]) -> list[type[BaseException]]:
    found = [base]
    for cls in base.__subclasses__():
        found += every_class(cls)
    return found


ABSTRACT = {errors.LlmserveError, refusals.Refusal}


def test_every_exception_of_the_package_has_a_rule() -> None:
    for cls in every_class(errors.LlmserveError):
        if cls.__module__.startswith("llmserve") and cls not in ABSTRACT:
            assert any(base in RULES for base in cls.__mro__), cls


@pytest.mark.parametrize(
    ("error", "dialect", "status", "openai_type", "grpc_status"),
    [
        (errors.ContextExceededError("x"), "", 400, "invalid_request_error", "INVALID_ARGUMENT"),
        (errors.QueueFullError("x"), "", 503, "overloaded_error", "RESOURCE_EXHAUSTED"),
        (errors.EngineDeadError("x"), "llamacpp", 500, "server_error", "INTERNAL"),
        (errors.LoadError("x"), "", 502, "server_error", "INTERNAL"),
        (errors.LoadError("x"), "llamatik", 400, "server_error", "INTERNAL"),
        (errors.LoadError("x", reason="not_found"), "", 502, "server_error", "NOT_FOUND"),
        (errors.LoadError("x", reason="not_gguf"), "", 502, "server_error", "INVALID_ARGUMENT"),
        (refusals.UnknownModelError(), "", 404, "invalid_request_error", "NOT_FOUND"),
        (refusals.UnknownModelError(), "llamacpp", 400, "invalid_request_error", "NOT_FOUND"),
        (refusals.ModelLoadingError(), "", 503, "overloaded_error", "UNAVAILABLE"),
        (refusals.ModelLoadingError(), "llamacpp", 400, "overloaded_error", "UNAVAILABLE"),
        (refusals.PathNotAllowedError("path"), "", 403, "permission_error", "PERMISSION_DENIED"),
        (refusals.PathNotAllowedError("path"), "llamacpp", 400, "permission_error", "PERMISSION_DENIED"),
        (refusals.PathNotLocalError("MODELS_DIR"), "llamacpp", 403, "permission_error", "PERMISSION_DENIED"),
        (refusals.ServerDrainingError(), "llamacpp", 503, "overloaded_error", "UNAVAILABLE"),
    ],
)
def test_rules(error: Exception, dialect: str, status: int, openai_type: str, grpc_status: str) -> None:
    fault = fault_of(error, dialect)
    assert (fault.status, fault.rule.openai_type, fault.rule.grpc_status_for(error)) == (
        status,
        openai_type,
        grpc_status,
    )
    assert fault.message == str(error)


def test_retry_after_is_the_exceptions_own_rounded_up_to_whole_seconds() -> None:
    for seconds, shown in ((0.2, "1"), (1.0, "1"), (2.5, "3")):
        error = errors.QueueFullError("full", retry_after_s=seconds)
        rule = rule_for(error)
        assert rule is not None
        assert retry_after(error, rule) == shown
    assert fault_headers(fault_of(refusals.UnknownModelError(), "")) == []
    assert fault_headers(fault_of(refusals.ModelLoadingError(), "")) == [(b"retry-after", b"1")]
    assert fault_headers(fault_of(refusals.ModelLoadingError(), "llamacpp")) == []


@pytest.mark.parametrize("error", [refusals.ServerDrainingError(), refusals.ServerStoppingError()])
def test_a_server_that_ends_sends_clients_elsewhere(error: errors.LlmserveError) -> None:
    assert fault_headers(fault_of(error, "")) == [(b"retry-after", b"5"), (b"connection", b"close")]


def test_unexpected_faults_show_nothing_but_the_request_id(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        fault = fault_of(RuntimeError("/secret/path"), "llamacpp")
    assert (fault.status, fault.message) == (500, "internal error (request -)")
    assert "/secret/path" in caplog.text


def test_ignored_names_are_safe_in_a_header() -> None:
    assert ignored_header(["options.kv_bits", "a b", "x\r\nSet-Cookie: a", "ü", "a b"]) == (
        "options.kv_bits, a%20b, x%0D%0ASet-Cookie%3A%20a, %C3%BC"
    )
    many = ignored_header(f"f{n}" for n in range(40))
    assert many.endswith("f31, and 8 more")
    assert len(ignored_header(["x" * 1000])) == 64
