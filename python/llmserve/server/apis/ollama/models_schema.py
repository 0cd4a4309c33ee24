"""Wire types of the routes about models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from llmserve.server.refusals import FieldError
from llmserve.server.web.fields import Field

_MODEL = Field("A model's name.", example="hf.co/ORG/REPO:Q4_K_M")
_NAME = Field("The older name of `model`.")


@dataclass(frozen=True, slots=True, kw_only=True)
class OllamaModelRequest:
    """Which model."""

    model: Annotated[str, _MODEL] = ""
    name: Annotated[str, _NAME] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OllamaShowRequest(OllamaModelRequest):
    """Which model to show."""

    verbose: Annotated[bool, Field("Without effect: long arrays are always left out.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OllamaPullRequest(OllamaModelRequest):
    """Which model to download."""

    stream: Annotated[bool, Field("Answer with lines of JSON that tell the progress.")] = True
    insecure: Annotated[bool, Field("Without effect: a URL says by itself how it is asked.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OllamaDeleteRequest(OllamaModelRequest):
    """Which model to remove."""


def name_of(request: OllamaModelRequest) -> str:
    """The name that a request gives.

    Raises:
        FieldError: It gives none.
    """
    if not (name := request.model or request.name):
        raise FieldError("model", "is required")
    return name
