"""The table of fields that are refused because they would change the answer."""

from __future__ import annotations

from typing import Any

import pytest

from llmserve.server.apis.openai.chat_schema import ChatRequest
from llmserve.server.apis.openai.completions_schema import OpenAiCompletionRequest
from llmserve.server.apis.openai.native_schema import NativeCompletionRequest
from llmserve.server.apis.openai.responses_schema import ResponsesRequest
from llmserve.server.fields.refused import WITHOUT_EFFECT, Refused, RefusedKind
from llmserve.server.refusals import FieldError
from llmserve.server.web.fields import properties, wire_name
from llmserve.server.web.schema import read

BODIES: dict[type, dict[str, Any]] = {
    ChatRequest: {"model": "m", "messages": [{"role": "user", "content": "a"}]},
    OpenAiCompletionRequest: {"model": "m", "prompt": "a"},
    NativeCompletionRequest: {"prompt": "a"},
    ResponsesRequest: {"model": "m", "input": "a"},
}
REFUSED_FIELDS = [
    (cls, prop.name, prop.field.kind.refused)
    for cls in BODIES
    for prop in properties(cls)
    if isinstance(prop.field.kind, RefusedKind)
]


@pytest.mark.parametrize(("cls", "name", "known"), REFUSED_FIELDS)
def test_refused_unless_neutral(cls: type, name: str, known: Refused) -> None:
    with pytest.raises(FieldError) as caught:
        read(cls, {**BODIES[cls], name: {"any": "value"}})
    assert caught.value.field == name
    for neutral in (None, "", [], {}, *known.neutral):
        assert not read(cls, {**BODIES[cls], name: neutral}).unknown


@pytest.mark.parametrize("cls", BODIES)
def test_a_field_is_either_honoured_or_refused(cls: type) -> None:
    names = [prop.name for prop in properties(cls)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("cls", BODIES)
def test_fields_without_effect_are_ignored(cls: type) -> None:
    body = {**BODIES[cls], **dict.fromkeys(WITHOUT_EFFECT, 1)}
    assert read(cls, body).unknown == tuple(WITHOUT_EFFECT)


def test_booleans_are_no_numbers() -> None:
    for value in (False, True):
        with pytest.raises(FieldError, match=r"^tfs must be 1, got a boolean: the sampler"):
            read(ChatRequest, {**BODIES[ChatRequest], "tfs": value})


def test_the_engines_names_are_not_those_of_refused_fields() -> None:
    body = read(ResponsesRequest, {**BODIES[ResponsesRequest], "max_output_tokens": 5}).value
    assert wire_name(body, "max_tokens") == "max_output_tokens"
