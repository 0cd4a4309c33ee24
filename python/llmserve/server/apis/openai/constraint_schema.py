"""Wire types of what the output must be, in the spellings of llama-server, vLLM and SGLang."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from llmserve.server.fields.foreign import Refused
from llmserve.server.fields.refused import Refusals
from llmserve.server.refusals import FieldError
from llmserve.server.web.field_kinds import OBJECT_OR_TEXT, TEXT_ARRAY
from llmserve.server.web.fields import Field, Kind

_SYNTAX = "GBNF (with a `::=`) or llguidance's Lark"

_STRUCTURAL_TAG = "Free text with tags whose contents match schemas, as an object or its text."


def _read_choices(value: Any, name: str) -> tuple[str, ...]:
    texts: tuple[str, ...] = TEXT_ARRAY.read(value, name)
    if not texts:
        raise FieldError(name, "must have at least one text, got none", limit=1)
    return texts


# Documents are closed objects without blanks, and there is one backend.
_OF_VLLM = {
    "disable_fallback": Refused("there is one backend", (False, True)),
    "disable_any_whitespace": Refused("documents have no blanks", (False, True)),
    "disable_additional_properties": Refused("objects are closed", (False, True)),
    "whitespace_pattern": Refused("documents have no blanks"),
}

CHOICES = Kind(_read_choices, {**TEXT_ARRAY.schema, "minItems": 1})


@dataclass(frozen=True, slots=True, kw_only=True)
class StructuredOutputs:
    """vLLM's constraint: one of the fields."""

    json: Annotated[Any, Field("A JSON Schema, or its text.", engine="json_schema", kind=OBJECT_OR_TEXT)] = (
        None
    )
    json_object: Annotated[bool, Field("Any JSON object.", engine="json_schema")] = False
    regex: Annotated[str | None, Field("A regular expression for the whole output.")] = None
    choice: Annotated[
        tuple[str, ...] | None, Field("The output is one of these texts.", engine="regex", kind=CHOICES)
    ] = None
    grammar: Annotated[str | None, Field(f"A grammar: {_SYNTAX}.")] = None
    structural_tag: Annotated[Any, Field(_STRUCTURAL_TAG, engine="grammar", kind=OBJECT_OR_TEXT)] = None
    foreign: ClassVar = Refusals(
        known=_OF_VLLM, otherwise=Refused("it is not a field of this object", may_be_empty=False)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintFields:
    """What the output must be. Two fields that ask for different outputs are refused."""

    json_schema: Annotated[
        Any,
        Field("A JSON Schema for the output, or its text, as in llama-server.", kind=OBJECT_OR_TEXT),
    ] = None
    grammar: Annotated[str | None, Field(f"A grammar for the output, as in llama-server: {_SYNTAX}.")] = None
    regex: Annotated[str | None, Field("SGLang's: a regular expression for the whole output.")] = None
    structural_tag: Annotated[
        Any,
        Field(
            f"SGLang's: {_STRUCTURAL_TAG[0].lower()}{_STRUCTURAL_TAG[1:]}",
            engine="grammar",
            kind=OBJECT_OR_TEXT,
        ),
    ] = None
    ebnf: Annotated[str | None, Field("SGLang's name of `grammar`.", engine="grammar")] = None
    structured_outputs: Annotated[StructuredOutputs | None, Field("vLLM's constraint.")] = None
    guided_json: Annotated[
        Any,
        Field("The older name of `structured_outputs.json`.", engine="json_schema", kind=OBJECT_OR_TEXT),
    ] = None
    guided_regex: Annotated[
        str | None, Field("The older name of `structured_outputs.regex`.", engine="regex")
    ] = None
    guided_choice: Annotated[
        tuple[str, ...] | None,
        Field("The older name of `structured_outputs.choice`.", engine="regex", kind=CHOICES),
    ] = None
    guided_grammar: Annotated[
        str | None, Field("The older name of `structured_outputs.grammar`.", engine="grammar")
    ] = None
