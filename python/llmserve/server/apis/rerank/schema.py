"""Wire types of the ranking routes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from llmserve.server.fields.foreign import Refused
from llmserve.server.fields.refused import Refusals
from llmserve.server.refusals import FieldError
from llmserve.server.web.field_kinds import read_texts
from llmserve.server.web.fields import Field, Kind
from llmserve.server.web.schema import kind_of

MAX_DOCUMENTS = 2048
"""Maximum number of documents in one request, as Jina has it."""

_TEXTS_SCHEMA = {"type": "array", "items": {"type": "string"}}
_TEXT = "text"

_FOREIGN = Refusals(
    known={
        "truncate_prompt_tokens": Refused("set truncate"),
        "max_tokens_per_doc": Refused("set truncate"),
        "max_chunks_per_doc": Refused("documents are not divided"),
        "truncation_direction": Refused("documents lose their end", ("right", "Right")),
        "activation": Refused("set raw_scores", (True,)),
        "use_activation": Refused("set raw_scores", (True,)),
    }
)


def _at_most(read: Callable[[Any, str], tuple[str, ...]]) -> Callable[[Any, str], tuple[str, ...]]:
    def read_some(value: Any, name: str) -> tuple[str, ...]:
        texts = read(value, name)
        if not texts:
            raise FieldError(name, "must not be empty")
        if len(texts) > MAX_DOCUMENTS:
            reason = f"must have at most {MAX_DOCUMENTS} entries, got {len(texts)}"
            raise FieldError(name, reason, limit=MAX_DOCUMENTS)
        return texts

    return read_some


def _read_documents(value: Any, name: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise FieldError(name, f"must be an array, got {kind_of(value)}")
    return tuple(_read_document(item, f"{name}[{index}]") for index, item in enumerate(value))


def _read_document(value: Any, name: str) -> str:
    """A text, or an object with one."""
    if isinstance(value, dict):
        value, name = value.get(_TEXT), f"{name}.{_TEXT}"
    if not isinstance(value, str):
        raise FieldError(name, f"must be a string, got {kind_of(value)}")
    return value


_DOCUMENTS = Kind(
    _at_most(_read_documents),
    {
        "type": "array",
        "items": {
            "anyOf": [
                {"type": "string"},
                {"type": "object", "properties": {_TEXT: {"type": "string"}}, "required": [_TEXT]},
            ]
        },
    },
)
_TEXTS = Kind(_at_most(read_texts), {"anyOf": [{"type": "string"}, _TEXTS_SCHEMA]})


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringFields:
    """The model, and how it scores."""

    model: Annotated[
        str | None, Field("The id of a model that ranks; by default the catalogue's first one.")
    ] = None
    raw_scores: Annotated[
        bool, Field("Give scores as the model's head gives them; by default they are from 0 to 1.")
    ] = False
    truncate: Annotated[
        bool, Field("Cut the end of documents that are too long, instead of refusing the request.")
    ] = False
    foreign: ClassVar = _FOREIGN


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankRequest(ScoringFields):
    """A query, and documents to rank by it."""

    query: Annotated[str, Field("What is asked.", example="What is deep?")]
    documents: Annotated[
        tuple[str, ...] | None,
        Field(
            f"Up to {MAX_DOCUMENTS} texts, or objects with a `text`.",
            kind=_DOCUMENTS,
            example=["the sea", "a tree"],
        ),
    ] = None
    texts: Annotated[
        tuple[str, ...] | None,
        Field("TEI's name of `documents`; the answer then has TEI's shape, too.", kind=_TEXTS),
    ] = None
    top_n: Annotated[int | None, Field("Give only this many results, the best.", minimum=1)] = None
    return_documents: Annotated[bool, Field("Give the documents with the results.")] = False
    return_text: Annotated[bool, Field("TEI's name of `return_documents`.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRequest(ScoringFields):
    """Pairs of texts to score, as vLLM has them."""

    text_1: Annotated[
        tuple[str, ...],
        Field(
            "A query, or a query for each text of `text_2`.",
            kind=_TEXTS,
            example="What is deep?",
        ),
    ]
    text_2: Annotated[
        tuple[str, ...],
        Field("A document, or several.", kind=_TEXTS, example=["the sea", "a tree"]),
    ]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """A query with each document.

        Raises:
            FieldError: There are several queries, and not as many documents.
        """
        queries = self.text_1
        if len(queries) == 1:
            queries = queries * len(self.text_2)
        if len(queries) != len(self.text_2):
            reason = f"must have one text, or as many as text_2 ({len(self.text_2)}), got {len(queries)}"
            raise FieldError("text_1", reason)
        return list(zip(queries, self.text_2, strict=True))
