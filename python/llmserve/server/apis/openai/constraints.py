"""What the output must be: all spellings become the engine's one constraint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.openai.constraint_schema import ConstraintFields, StructuredOutputs
from llmserve.server.apis.openai.formats import format_schema, format_text, kind_of_format, text_field
from llmserve.server.conversation.json_formats import from_text, schema_text
from llmserve.server.conversation.tool_formats import literal
from llmserve.server.grammars.requested import read_grammar
from llmserve.server.grammars.structural_tags import structural_tag_to_lark
from llmserve.server.refusals import FieldError
from llmserve.server.web.fields import wire_name

_ENGINE_NAMES = ("json_schema", "regex", "grammar")


class Constraint(NamedTuple):
    """A constraint as the engine has it."""

    engine_name: str
    """The parameter of the engine."""
    text: str
    is_lark: bool = False
    """Whether a grammar is one of the engine's, and not a client's."""


async def with_constraint(
    fields: ConstraintFields,
    params: SamplingParams,
    response_format: Mapping[str, Any] | None,
    format_field: str = "response_format",
) -> SamplingParams:
    """The parameters with the constraint that a request asks for, if any.

    Raises:
        FieldError: A constraint has a mistake, or two contradict each other.
    """
    found: dict[Constraint, str] = {}
    for field, constraint in _given(fields, response_format, format_field):
        if constraint.engine_name == "grammar" and not constraint.is_lark:
            constraint = constraint._replace(text=await read_grammar(constraint.text, field))
        found.setdefault(constraint, field)
    if not found:
        return params
    (constraint, first), *others = found.items()
    if others:
        raise FieldError(others[0][1], f"cannot be used with {first}: choose one")
    return params.replace(**{constraint.engine_name: constraint.text})


def constraint_field(request: object, params: SamplingParams) -> str:
    """The field of a request that its constraint came from."""
    given = [name for name in _ENGINE_NAMES if getattr(params, name) is not None]
    return wire_name(request, given[0] if given else "json_schema")


def _given(
    fields: ConstraintFields, response_format: Mapping[str, Any] | None, format_field: str
) -> Iterator[tuple[str, Constraint]]:
    """The constraints of a request, with the field of each."""
    is_flat = format_field != "response_format"
    if (of_format := _of_format(response_format, format_field, is_flat=is_flat)) is not None:
        yield of_format
    outputs = fields.structured_outputs or StructuredOutputs()
    if outputs.json_object:
        yield "structured_outputs.json_object", Constraint("json_schema", '{"type":"object"}')
    schemas = {
        "json_schema": fields.json_schema,
        "guided_json": fields.guided_json,
        "structured_outputs.json": outputs.json,
    }
    for field, schema in schemas.items():
        if schema is not None:
            yield field, Constraint("json_schema", _schema_text(schema, field))
    tags = {
        "structural_tag": fields.structural_tag,
        "structured_outputs.structural_tag": outputs.structural_tag,
    }
    for field, tag in tags.items():
        if tag is not None and tag != "":
            yield field, _of_tag(from_text(tag, field), field)
    expressions = {
        "regex": fields.regex,
        "guided_regex": fields.guided_regex,
        "structured_outputs.regex": outputs.regex,
        "guided_choice": _any_of(fields.guided_choice),
        "structured_outputs.choice": _any_of(outputs.choice),
    }
    grammars = {
        "grammar": fields.grammar,
        "ebnf": fields.ebnf,
        "guided_grammar": fields.guided_grammar,
        "structured_outputs.grammar": outputs.grammar,
    }
    for engine_name, texts in (("regex", expressions), ("grammar", grammars)):
        for field, text in texts.items():
            # Clients of llama-server and SGLang send an empty text for none.
            if text:
                yield field, Constraint(engine_name, text)


def _of_format(
    given: Mapping[str, Any] | None, field: str, *, is_flat: bool
) -> tuple[str, Constraint] | None:
    """The constraint of a response format, with the field that has it."""
    if given is None or (kind := kind_of_format(given, field)) == "text":
        return None
    if kind in ("regex", "grammar"):
        return f"{field}.{text_field(given)}", Constraint(kind, format_text(given, field))
    if kind == "structural_tag":
        return field, _of_tag(given, field)
    return field, Constraint("json_schema", format_schema(given, field, is_flat=is_flat))


def _of_tag(tag: Any, field: str) -> Constraint:
    return Constraint("grammar", structural_tag_to_lark(tag, field), is_lark=True)


def _schema_text(schema: Any, field: str) -> str:
    return schema_text(from_text(schema, field), field)


def _any_of(texts: tuple[str, ...] | None) -> str | None:
    return None if texts is None else "|".join(map(literal, texts))
