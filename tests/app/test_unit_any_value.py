"""A field takes a value exactly where its JSON Schema, which clients are shown, allows it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Annotated, Any

import jsonschema
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmserve.server.fields.sampling import SAMPLING
from llmserve.server.fields.table import camel, group
from llmserve.server.refusals import FieldError
from llmserve.server.web.fields import Values
from llmserve.server.web.json_schema import json_schema
from llmserve.server.web.schema import read

# Of `logit_bias`, the schema says less than is checked: its keys are token ids.
NAMES = tuple(name for name in SAMPLING if name != "logit_bias")
ALL = group(SAMPLING, {name: {} for name in NAMES}, only=NAMES, wire=camel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A body."""

    sampling: Annotated[Values, ALL] = field(default_factory=ALL.defaults)


PROPERTIES: dict[str, Any] = json_schema(Body)["properties"]
# What formats add to the schemas, by OpenAPI's registry of formats.
RANGES: dict[str, dict[str, float]] = {
    "int32": {"minimum": -(2**31), "maximum": 2**31 - 1},
    "int64": {"minimum": -(2**63), "maximum": 2**63 - 1},
    "float": {"minimum": -3.4028234663852886e38, "maximum": 3.4028234663852886e38},
}
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
NUMBERS = st.one_of(st.integers(-(2**63), 2**64 - 1), st.integers(-3, 3), FLOATS)
SCALARS = st.one_of(NUMBERS, st.booleans(), st.text(max_size=5))
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=3), st.dictionaries(st.text(max_size=3), SCALARS))


def is_allowed(name: str, value: Any) -> bool:
    schema = PROPERTIES[name]
    limits = RANGES.get(schema.get("format", "int64" if schema.get("type") == "integer" else ""), {})
    return jsonschema.Draft202012Validator({**limits, **schema}).is_valid(value)


@pytest.mark.parametrize("name", PROPERTIES)
@given(value=VALUES)
def test_what_the_schema_allows_is_taken(name: str, value: Any) -> None:
    body = orjson.loads(json.dumps({name: value}))
    if is_allowed(name, body[name]):
        assert len(read(Body, body).value.sampling) >= 1
    else:
        with pytest.raises(FieldError) as caught:
            read(Body, body)
        assert caught.value.field.startswith(name)
        assert str(caught.value).startswith(name)
