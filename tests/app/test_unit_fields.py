"""The tables of fields, and what dialects make of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest

from llmserve import ModelConfig, SamplingParams
from llmserve.server.attribute_docs import docs_of
from llmserve.server.fields.sampling import SAMPLING, sampling_params
from llmserve.server.fields.table import camel, group
from llmserve.server.web.fields import Field, Group, Values, dump, wire_name
from llmserve.server.web.json_schema import json_schema
from llmserve.server.web.schema import read

SOME = group(
    SAMPLING,
    {"temperature": {"default": 0.5, "maximum": 2}, "max_tokens": {}, "repetition_penalty": {"wire": "rep"}},
    only=("temperature", "max_tokens", "repetition_penalty", "ignore_eos"),
    wire=camel,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A body."""

    sampling: Annotated[Values, SOME] = field(default_factory=SOME.defaults)
    limit: Annotated[int | None, Field("A limit.", engine="max_tokens")] = None


@pytest.mark.parametrize("cls", [SamplingParams, ModelConfig])
def test_every_field_of_the_python_api_has_a_doc(cls: Any) -> None:
    assert list(docs_of(cls)) == list(cls.__dataclass_fields__)


def test_the_engine_takes_what_the_table_allows() -> None:
    exclusive = {"top_p": 1e-6, "repetition_penalty": 1e-6}
    for name, known in SAMPLING.items():
        bounds = (known.field.minimum, known.field.maximum)
        for bound in (bound for bound in bounds if bound is not None):
            value = max(bound, exclusive.get(name, bound))
            extra = {"max_tokens": value} if name == "min_tokens" and value else {}
            sampling_params({name: value, **extra})


def test_a_group_has_the_common_fields_and_those_that_are_named() -> None:
    def names(made: Group) -> set[str]:
        return {entry.name for entry in made.entries}

    common = {name for name, known in SAMPLING.items() if known.is_common}
    assert names(group(SAMPLING)) == common
    assert names(group(SAMPLING, {"ignore_eos": {}}, without=("top_k",))) == common - {"top_k"} | {
        "ignore_eos"
    }
    assert names(SOME) == {"temperature", "max_tokens", "repetition_penalty"}


def test_values_are_read_by_the_engines_names() -> None:
    parsed = read(Body, {"maxTokens": 5, "rep": 2, "top_k": 1})
    assert parsed.value.sampling == {"temperature": 0.5, "max_tokens": 5, "repetition_penalty": 2.0}
    assert parsed.unknown == ("top_k",)
    assert dump(parsed.value) == {"temperature": 0.5, "maxTokens": 5, "rep": 2.0, "limit": None}
    assert Body().sampling == read(Body, {}).value.sampling
    shown = json_schema(Body)["properties"]
    assert {**shown["temperature"], "description": ""} == {
        "type": "number",
        "description": "",
        "default": 0.5,
        "format": "float",
        "minimum": 0,
        "maximum": 2,
        "examples": [0.7],
    }


def test_the_name_on_the_wire_is_the_one_that_was_given() -> None:
    assert wire_name(Body, "max_tokens") == "maxTokens"
    assert wire_name(read(Body, {"limit": 5}).value, "max_tokens") == "limit"
    assert wire_name(read(Body, {"maxTokens": 5}).value, "max_tokens") == "maxTokens"
    assert wire_name(Body, "other") == "other"
