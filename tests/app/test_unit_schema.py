from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest

from llmserve.server.refusals import FieldError
from llmserve.server.web.field_kinds import read_texts
from llmserve.server.web.fields import Field, Kind, dump, wire_name
from llmserve.server.web.json_schema import json_schema, nested
from llmserve.server.web.schema import MAX_FIELDS, read


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """An inner object."""

    share: Annotated[float, Field("A share.", format="float", maximum=1)] = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    """An outer
    object."""

    name: Annotated[str, Field("A name.", non_empty=True, example="x")]
    count: Annotated[int, Field("A count.", format="int32")] = 3
    limit: Annotated[int | None, Field("A limit.", minimum=-1)] = None
    flag: Annotated[bool, Field("A flag.")] = False
    other: Annotated[str | None, Field("Another name.", non_empty=True)] = None
    exact: Annotated[int | None, Field("An id.", is_exact=True)] = None
    inner: Annotated[Inner, Field("More.")] = field(default_factory=Inner)


def test_defaults_and_values() -> None:
    assert read(Outer, {"name": "a"}).value == Outer(name="a")
    parsed = read(Outer, {"name": "a", "count": 5.0, "limit": -1, "flag": True, "inner": {"share": 1}})
    assert parsed.value == Outer(name="a", count=5, limit=-1, flag=True, inner=Inner(share=1.0))
    assert isinstance(parsed.value.count, int)
    assert isinstance(parsed.value.inner.share, float)


def test_null_is_absent() -> None:
    assert read(Outer, {"name": "a", "count": None, "inner": None}).value == Outer(name="a")


def test_unknown_fields_are_reported_with_their_place() -> None:
    body = {"name": "a", "x": 1, "inner": {"y": None}}
    assert sorted(read(Outer, body).unknown) == ["inner.y", "x"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "name is required"),
        ({"name": None}, "name is required"),
        ({"name": ""}, "name is required"),
        ({"name": 5}, "name must be a string, got the number 5"),
        ({"name": "a", "count": True}, "count must be an integer, got a boolean"),
        ({"name": "a", "count": 1.5}, "count must be an integer, got the number 1.5"),
        ({"name": "a", "count": "1"}, "count must be an integer, got a string"),
        ({"name": "a", "count": 2**31}, "count must be at most 2147483647, got 2147483648"),
        ({"name": "a", "exact": 5.0}, "exact must be an integer, got the number 5.0"),
        ({"name": "a", "exact": 1e30}, "exact must be at most 9223372036854775807, got 1e+30"),
        ({"name": "a", "other": ""}, "other must not be empty"),
        ({"name": "a", "limit": -2}, "limit must be at least -1, got -2"),
        ({"name": "a", "flag": 1}, "flag must be a boolean, got the number 1"),
        ({"name": "a", "inner": []}, "inner must be an object, got an array"),
        ({"name": "a", "inner": {"share": 1.25}}, "inner.share must be at most 1, got 1.25"),
        ({"name": "a", "inner": {"share": False}}, "inner.share must be a number, got a boolean"),
        ({"name": "a", "inner": {"share": float("nan")}}, "inner.share must be a finite number, got nan"),
        (
            {"name": "a", "inner": {"share": -1e300}},
            "inner.share must be at least -3.40282346638529e+38, got -1e+300",
        ),
    ],
)
def test_errors_name_field_limit_and_value(body: dict[str, Any], message: str) -> None:
    with pytest.raises(FieldError) as caught:
        read(Outer, body)
    assert str(caught.value) == message
    assert message.startswith(caught.value.field)


def test_objects_of_too_many_fields_are_refused_at_every_level() -> None:
    def wide(num_fields: int, **fields: Any) -> dict[str, Any]:
        return {**fields, **{f"x{n}": n for n in range(num_fields - len(fields))}}

    inner = wide(MAX_FIELDS)
    parsed = read(Outer, wide(MAX_FIELDS, name="a", inner=inner))
    assert len(parsed.unknown) == 2 * MAX_FIELDS - 2
    with pytest.raises(FieldError, match=r"^body must have at most 1000 fields, got 1001$"):
        read(Outer, wide(MAX_FIELDS + 1, name="a"))
    with pytest.raises(FieldError, match=r"^inner must have at most 1000 fields, got 1001$"):
        read(Outer, {"name": "a", "inner": wide(MAX_FIELDS + 1)})


def test_json_schema_says_the_same() -> None:
    assert json_schema(Outer) == {
        "type": "object",
        "description": "An outer object.",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "description": "A name.", "examples": ["x"], "minLength": 1},
            "count": {"type": "integer", "description": "A count.", "default": 3, "format": "int32"},
            "limit": {"type": "integer", "description": "A limit.", "minimum": -1},
            "flag": {"type": "boolean", "description": "A flag.", "default": False},
            "other": {"type": "string", "description": "Another name.", "minLength": 1},
            "exact": {"type": "integer", "description": "An id."},
            "inner": {"$ref": "#/components/schemas/Inner", "description": "More."},
        },
    }
    assert nested(Outer) == [Inner]


@dataclass(frozen=True, slots=True, kw_only=True)
class Renamed:
    """An object of another naming."""

    long_name: Annotated[int | None, Field("A number.", wire="longName", maximum=2**64 - 1)] = None
    texts: Annotated[
        tuple[str, ...] | None, Field("Texts.", kind=Kind(read_texts, {"type": "array"}), wire="theTexts")
    ] = None


def test_names_of_the_wire() -> None:
    parsed = read(Renamed, {"longName": 2**64 - 1, "theTexts": "a", "long_name": 5})
    assert parsed.value == Renamed(long_name=2**64 - 1, texts=("a",))
    assert parsed.unknown == ("long_name",)
    assert dump(parsed.value) == {"longName": 2**64 - 1, "theTexts": ("a",)}
    assert (wire_name(Renamed, "long_name"), wire_name(Renamed, "other")) == ("longName", "other")
    assert json_schema(Renamed)["properties"] == {
        "longName": {"type": "integer", "description": "A number.", "maximum": 2**64 - 1},
        "theTexts": {"type": "array", "description": "Texts."},
    }
    with pytest.raises(FieldError, match=r"^longName must be at most 18446744073709551615, got 1844.*616$"):
        read(Renamed, {"longName": 2**64})
    with pytest.raises(FieldError, match=r"^theTexts\[1\] must be a string, got null$"):
        read(Renamed, {"theTexts": ["a", None]})
