"""Errors in Ollama's shape: ``{"error": "..."}``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from llmserve.server.refusals import MAX_SHOWN_ID, NotAModelError, UnknownModelError
from llmserve.server.web.errors import Dialect, Fault
from llmserve.server.web.fields import Field

DIALECT = "ollama"


@dataclass(frozen=True, slots=True, kw_only=True)
class OllamaError:
    """Why a request was refused or failed."""

    error: Annotated[str, Field("What is wrong.", example="model 'llama3.2' not found")]


def render(fault: Fault) -> object:
    """The body of an error, or the last line of a stream that failed."""
    if isinstance(fault.error, UnknownModelError):
        # Clients look for the beginning.
        name = (fault.error.model_id or "")[:MAX_SHOWN_ID]
        reason = "GET /api/tags lists the models that are here"
        if isinstance(fault.error, NotAModelError):
            reason = f"it is {fault.error.role}"
        return {"error": f"model {name!r} not found: {reason}"}
    return {"error": fault.message}


OLLAMA = Dialect(DIALECT, render, OllamaError, root="/api")
