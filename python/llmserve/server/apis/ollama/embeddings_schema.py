"""Wire types of the embedding routes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from llmserve.server.apis.ollama.field_kinds import KEEP_ALIVE
from llmserve.server.refusals import FieldError
from llmserve.server.web.field_kinds import OBJECT, TEXTS, read_texts
from llmserve.server.web.fields import Field, Kind

MAX_INPUTS = 2048
"""Maximum number of texts in one request."""


def _read_inputs(value: Any, name: str) -> tuple[str, ...]:
    texts = read_texts(value, name)
    if len(texts) > MAX_INPUTS:
        raise FieldError(name, f"must have at most {MAX_INPUTS} texts, got {len(texts)}", limit=MAX_INPUTS)
    return texts


_MODEL = Field("The name of an embedding model.", non_empty=True)
_KEPT = Field("How long the idle model stays loaded, as in `/api/chat`.", kind=KEEP_ALIVE)
_OPTIONS = Field("Without effect: none of Ollama's options changes a vector.", kind=OBJECT)


@dataclass(frozen=True, slots=True, kw_only=True)
class OllamaEmbedRequest:
    """Texts to embed."""

    model: Annotated[str, _MODEL]
    input: Annotated[
        tuple[str, ...],
        Field(
            f"A text, or up to {MAX_INPUTS}. Without any, the model is loaded.",
            kind=Kind(_read_inputs, TEXTS.schema),
            example="The sea is deep.",
        ),
    ] = ()
    truncate: Annotated[bool, Field("Cut off texts that are too long; else they are refused.")] = True
    dimensions: Annotated[
        int | None,
        Field("Keep only this many leading values of each vector.", minimum=1, maximum=2**31 - 1),
    ] = None
    options: Annotated[Mapping[str, Any], _OPTIONS] = field(default_factory=dict)
    keep_alive: Annotated[float | None, _KEPT] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OllamaEmbeddingsRequest:
    """A text to embed."""

    model: Annotated[str, _MODEL]
    prompt: Annotated[
        str, Field("The text. Without one, the model is loaded.", example="The sea is deep.")
    ] = ""
    options: Annotated[Mapping[str, Any], _OPTIONS] = field(default_factory=dict)
    keep_alive: Annotated[float | None, _KEPT] = None
