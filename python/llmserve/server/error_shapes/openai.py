"""Errors in OpenAI's shape: ``{"error": {"message", "type", "param", "code"}}``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from llmserve import errors
from llmserve.server import refusals
from llmserve.server.web.errors import Dialect, Fault
from llmserve.server.web.fields import Field

DIALECT = "openai"

# Codes that OpenAI's clients know under another name than the exception's own.
_CODES: Mapping[type[BaseException], str] = {
    errors.ContextExceededError: "context_length_exceeded",
    refusals.UnknownModelError: "model_not_found",
    refusals.UnauthorizedError: "invalid_api_key",
    refusals.UnknownPreviousResponseError: refusals.UnknownPreviousResponseError.code,
    refusals.FieldError: "invalid_value",
    errors.InvalidParameterError: "invalid_value",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAiErrorDetail:
    """What went wrong."""

    message: Annotated[str, Field("In words.")]
    type: Annotated[str, Field("The kind.", example="invalid_request_error")]
    param: Annotated[str | None, Field("The field that is wrong.")]
    code: Annotated[str | None, Field("A stable name.")]
    n_prompt_tokens: Annotated[
        int | None, Field("Of a prompt that is too long: the tokens that it has at least.")
    ] = None
    n_ctx: Annotated[int | None, Field("Of a prompt that is too long: the context length.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAiError:
    """Why a request was refused or failed."""

    error: Annotated[OpenAiErrorDetail, Field("The error.")]


def render(fault: Fault) -> object:
    """The body of an error."""
    return {
        "error": {
            "message": _message(fault),
            "type": fault.rule.openai_type,
            "param": _param(fault.error),
            "code": _code(fault.error),
            **_sizes(fault.error),
        }
    }


def _message(fault: Fault) -> str:
    error = fault.error
    if isinstance(error, errors.ContextExceededError):
        if isinstance(error, errors.InputTooLongError):
            reason = f"{error.field} has {error.shown_tokens}"
        elif isinstance(error, errors.DocumentTooLongError) and error.minimum >= error.context_length:
            reason = f"it is too small for the schema, whose shortest document takes {error.minimum} tokens"
        else:
            which = f"a prompt is too long, {error.field} of" if error.field else "the prompt is too long,"
            reason = f"{which} {error.shown_tokens} tokens leave {_room(error)}"
        # LiteLLM knows this one by its first words, LangChain by "prompt is too long".
        limit = f"This model's maximum context length is {error.context_length} tokens"
        return f"{limit}: {reason}"
    return fault.message


def _room(error: errors.ContextExceededError) -> str:
    if not isinstance(error, errors.DocumentTooLongError):
        return "no room for output"
    return f"room for {error.budget} tokens of output, and the shortest document takes {error.minimum}"


def _sizes(error: BaseException) -> dict[str, int]:
    """As llama-server has them."""
    if not isinstance(error, errors.ContextExceededError):
        return {}
    return {"n_prompt_tokens": error.prompt_tokens, "n_ctx": error.context_length}


def _param(error: BaseException) -> str | None:
    if isinstance(error, refusals.FieldError | errors.InvalidParameterError | errors.BudgetTooSmallError):
        return error.field or None
    if isinstance(error, errors.ContextExceededError | errors.EmptyPromptError):
        return error.field or None
    if isinstance(error, refusals.UnknownModelError | refusals.ModelKindError | refusals.ModelNotLoadedError):
        return "model"
    return None


def _code(error: BaseException) -> str:
    for cls in type(error).__mro__:
        if code := _CODES.get(cls):
            return code
    return error.code if isinstance(error, errors.LlmserveError) else "internal_error"


OPENAI = Dialect(DIALECT, render, OpenAiError, root="/v1/")
"""The dialect of everything under `/v1/` that no other dialect has."""
