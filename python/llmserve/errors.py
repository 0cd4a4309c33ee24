"""The exceptions that llmserve raises about models and requests.

    LlmserveError
     ├─ LoadError                    a model could not be loaded
     │   └─ WrongModelKindError      the model does not generate text, or gives no embeddings
     ├─ RequestError                 a request was refused
     │   ├─ InvalidParameterError    a field has a bad value
     │   ├─ EmptyPromptError         the prompt has no tokens
     │   ├─ ContextExceededError     the prompt does not fit into the context length
     │   │   ├─ DocumentTooLongError nor does the shortest document behind it
     │   │   └─ InputTooLongError    nor does an input of an embedding model
     │   ├─ BudgetTooSmallError      the token limit is below the shortest document
     │   ├─ NoDraftHeadError         the model has no draft head
     │   ├─ QueueFullError           too many requests are waiting
     │   ├─ SessionError             a session file could not be written or read
     │   └─ TokenizeError            the text or the token ids cannot be converted
     ├─ GenerationError              the model failed to compute
     ├─ EngineClosedError            the engine was closed
     ├─ EngineDeadError              the engine crashed, or this process is a fork
     └─ TemplateError                a chat template rejected its messages

Messages give the limit and the actual value. They contain no paths and no lines of llama.cpp's log, so a
server may show them to its clients.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = [
    "BudgetTooSmallError",
    "ContextExceededError",
    "DocumentTooLongError",
    "EmptyPromptError",
    "EngineClosedError",
    "EngineDeadError",
    "GenerationError",
    "InputTooLongError",
    "InvalidParameterError",
    "LlmserveError",
    "LoadError",
    "NoDraftHeadError",
    "QueueFullError",
    "RequestError",
    "SessionError",
    "TemplateError",
    "TokenizeError",
    "WrongModelKindError",
]


class LlmserveError(Exception):
    """Base class of all exceptions of this package.

    `code` is a stable name that programs can rely on.
    """

    code: str = "error"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


def _about(field: str, reason: str) -> str:
    return f"{field}: {reason}" if field else reason


class LoadError(LlmserveError):
    """A model could not be loaded. Nothing of it remains in memory.

    `reason` is a stable name: `not_found`, `not_readable`, `not_gguf`, `unsupported_version`, `truncated`,
    `damaged`, `missing_part`, `wrong_part`, `unsupported`, `not_enough_memory`, `invalid_option`,
    `cancelled`, `wrong_kind`, `probe_failed` or `load_failed`. `field` names the option that is an
    `invalid_option`. `path` is the file, and `detail` holds llama.cpp's own words, for logs; neither is part
    of `str()`, but a traceback shows the path.
    """

    code = "load_failed"
    path: Path | None = None

    def __init__(
        self, message: str, *, reason: str = "load_failed", field: str = "", detail: str = ""
    ) -> None:
        super().__init__(_about(field, message))
        self._message = message
        self.reason = reason
        self.field = field
        self.detail = detail

    def at(self, path: str | os.PathLike[str]) -> LoadError:
        """This error, which now knows the file."""
        if self.path is None:
            self.path = Path(os.fsdecode(path))
            self.add_note(f"the model is {self.path}")
        return self

    def named(self, field: str) -> LoadError:
        """The same error with another name for the option, as a client knows it."""
        error = type(self)(self._message, reason=self.reason, field=field, detail=self.detail)
        return error if self.path is None else error.at(self.path)


class WrongModelKindError(LoadError):
    """The model gives embeddings where one that generates text is needed, or the other way round."""

    code = "wrong_model_kind"

    def __init__(
        self, message: str, *, reason: str = "wrong_kind", field: str = "", detail: str = ""
    ) -> None:
        super().__init__(message, reason=reason, field=field, detail=detail)


class RequestError(LlmserveError):
    """A request was refused before anything was generated."""

    code = "request_refused"


class InvalidParameterError(RequestError):
    """A field is of the wrong type or out of range, or contradicts another.

    `field` names it, and `reason` says what is wrong with it; the message is both. `limit` is the bound that
    the value is beyond, or `None` if it is beyond none.
    """

    code = "invalid_parameter"

    def __init__(
        self, reason: str, *, field: str = "", limit: float | None = None, code: str | None = None
    ) -> None:
        super().__init__(_about(field, reason), code=code)
        self.field = field
        self.reason = reason
        self.limit = limit

    def named(self, field: str) -> InvalidParameterError:
        """The same error with another name for the field, as a client knows it."""
        return type(self)(self.reason, field=field, limit=self.limit, code=self.code)


class EmptyPromptError(RequestError):
    """The prompt, which `field` names, has no tokens."""

    code = "empty_prompt"

    def __init__(self, message: str, *, field: str = "prompt", code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.field = field

    def named(self, field: str) -> EmptyPromptError:
        """The same error with the name of the prompt, as a client knows it."""
        return type(self)(field + str(self).removeprefix(self.field), field=field, code=self.code)


class ContextExceededError(RequestError):
    """The prompt does not fit into the context length.

    `prompt_tokens` and `context_length` count tokens. If `is_exact` is false, the prompt is too long to be
    tokenized and has at least that many. `field` names the prompt where a client sent several.
    """

    code = "context_exceeded"

    def __init__(
        self,
        message: str,
        *,
        prompt_tokens: int = 0,
        context_length: int = 0,
        is_exact: bool = True,
        field: str = "",
        code: str | None = None,
    ) -> None:
        super().__init__(message, code=code)
        self.prompt_tokens = prompt_tokens
        self.context_length = context_length
        self.is_exact = is_exact
        self.field = field

    @property
    def shown_tokens(self) -> str:
        """The number of tokens in words."""
        return f"{self.prompt_tokens}" if self.is_exact else f"at least {self.prompt_tokens}"

    def named(self, field: str) -> ContextExceededError:
        """The same error with the name of the prompt, as a client knows it."""
        return ContextExceededError(
            str(self),
            prompt_tokens=self.prompt_tokens,
            context_length=self.context_length,
            is_exact=self.is_exact,
            field=field,
            code=self.code,
        )


class DocumentTooLongError(ContextExceededError):
    """The prompt leaves less of the context length than the shortest document that the constraint allows.

    No token limit helps. `minimum` is the length of that document, and `budget` is what is left; both count
    tokens.
    """

    def __init__(
        self,
        message: str,
        *,
        prompt_tokens: int = 0,
        context_length: int = 0,
        minimum: int = 0,
        budget: int = 0,
        field: str = "",
        code: str | None = None,
    ) -> None:
        super().__init__(
            message, prompt_tokens=prompt_tokens, context_length=context_length, field=field, code=code
        )
        self.minimum = minimum
        self.budget = budget

    def named(self, field: str) -> DocumentTooLongError:
        """The same error with the name of the prompt, as a client knows it."""
        return type(self)(
            str(self),
            prompt_tokens=self.prompt_tokens,
            context_length=self.context_length,
            minimum=self.minimum,
            budget=self.budget,
            field=field,
            code=self.code,
        )


class InputTooLongError(ContextExceededError):
    """An input of an embedding model is too long; `index` is its position, from 0."""

    def __init__(
        self,
        message: str,
        *,
        prompt_tokens: int = 0,
        context_length: int = 0,
        is_exact: bool = True,
        index: int = 0,
        inputs: str = "input",
        code: str | None = None,
    ) -> None:
        super().__init__(
            message,
            prompt_tokens=prompt_tokens,
            context_length=context_length,
            is_exact=is_exact,
            field=f"{inputs}[{index}]",
            code=code,
        )
        self.index = index

    def named(self, field: str) -> InputTooLongError:
        """The same error with the name of the inputs, as a client knows it."""
        return type(self)(
            field + str(self).removeprefix("input"),
            prompt_tokens=self.prompt_tokens,
            context_length=self.context_length,
            is_exact=self.is_exact,
            index=self.index,
            inputs=field,
            code=self.code,
        )


class BudgetTooSmallError(RequestError):
    """The token limit is too small for even the shortest document that the constraint allows.

    `minimum` is the length of that document, and `budget` is what the request leaves for it.
    Both count tokens. `field` is `max_tokens`, `reason` says what is wrong with it, and `limit` is `minimum`.
    """

    code = "budget_too_small"

    def __init__(
        self,
        reason: str,
        *,
        minimum: int = 0,
        budget: int = 0,
        field: str = "max_tokens",
        code: str | None = None,
    ) -> None:
        super().__init__(_about(field, reason), code=code)
        self.reason = reason
        self.minimum = minimum
        self.limit = minimum
        self.budget = budget
        self.field = field

    def named(self, field: str) -> BudgetTooSmallError:
        """The same error with another name for the field, as a client knows it."""
        return type(self)(self.reason, minimum=self.minimum, budget=self.budget, field=field, code=self.code)


class NoDraftHeadError(RequestError):
    """The model has no head for multi-token prediction (MTP), so it cannot draft with it."""

    code = "no_draft_head"


class QueueFullError(RequestError):
    """Too many requests or tokens are waiting; try again in about `retry_after_s` seconds."""

    code = "queue_full"

    def __init__(self, message: str, *, retry_after_s: float = 1.0, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.retry_after_s = retry_after_s


class SessionError(RequestError):
    """A session file could not be written or read. The session and the file are unchanged.

    `reason` is a stable name: `not_found`, `not_readable`, `not_a_session`, `wrong_version`, `damaged`,
    `other_model`, `too_long`, `not_writable` or `not_replaceable`. `detail` has the path and the system's
    own words for logs; `str()` leaves them out.
    """

    code = "session_failed"

    def __init__(
        self, message: str, *, reason: str = "not_readable", detail: str = "", code: str | None = None
    ) -> None:
        super().__init__(message, code=code)
        self.reason = reason
        self.detail = detail


class TokenizeError(RequestError):
    """The text cannot be converted into tokens of the vocabulary, or the tokens into text."""

    code = "tokenize_failed"


class GenerationError(LlmserveError):
    """The model failed to compute.

    `code` is `decode_failed`, `invalid_logits`, `invalid_embedding`, `constraint_failed`,
    `draft_context_failed`, or `internal_error` for a fault in the engine that ended only this request.
    """

    code = "decode_failed"


class EngineClosedError(LlmserveError):
    """The engine was closed, before or during the call."""

    code = "shut_down"


class EngineDeadError(LlmserveError):
    """The engine's thread crashed, or this process was forked from the one that loaded the engine."""

    code = "engine_dead"


class TemplateError(LlmserveError):
    """A chat template is missing or broken, or rejected its messages."""

    code = "template_error"
