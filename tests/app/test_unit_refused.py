"""The fields that constrain or change the output: honoured, or refused by name, on every level of a body."""

from __future__ import annotations

from typing import Any

import pytest

from llmserve.server.apis.anthropic.schema import MessagesRequest
from llmserve.server.apis.completions.schema import CompletionRequest
from llmserve.server.apis.llamatik.schema import (
    ContextRequest,
    ContinueRequest,
    JsonContextRequest,
    JsonPromptRequest,
    ParamsRequest,
    PromptRequest,
)
from llmserve.server.apis.ollama.schema import OllamaChatRequest, OllamaGenerateRequest
from llmserve.server.apis.openai.chat_schema import ChatRequest
from llmserve.server.apis.openai.completions_schema import OpenAiCompletionRequest
from llmserve.server.apis.openai.native_schema import NativeCompletionRequest
from llmserve.server.apis.openai.responses_schema import ResponsesRequest
from llmserve.server.fields.foreign import FOREIGN
from llmserve.server.fields.refused import Refusals
from llmserve.server.fields.table import camel, snake
from llmserve.server.fields.without_effect import WITHOUT_EFFECT
from llmserve.server.refusals import FieldError
from llmserve.server.web.fields import properties, wire_name
from llmserve.server.web.schema import read

BODIES: dict[type, dict[str, Any]] = {
    ChatRequest: {"model": "m", "messages": [{"role": "user", "content": "a"}]},
    OpenAiCompletionRequest: {"model": "m", "prompt": "a"},
    NativeCompletionRequest: {"prompt": "a"},
    ResponsesRequest: {"model": "m", "input": "a"},
    MessagesRequest: {"model": "m", "messages": [{"role": "user", "content": "a"}]},
    CompletionRequest: {"model": "m", "prompt": "a"},
    PromptRequest: {"prompt": "a"},
    ContinueRequest: {"prompt": "a"},
    ContextRequest: {"userPrompt": "a"},
    JsonPromptRequest: {"prompt": "a"},
    JsonContextRequest: {"userPrompt": "a"},
    ParamsRequest: {},
    OllamaChatRequest: {"model": "m"},
    OllamaGenerateRequest: {"model": "m"},
}
LEVELS = [(cls, ()) for cls in BODIES] + [
    (cls, (prop.name,)) for cls in BODIES for prop in properties(cls) if prop.nested_type is not None
]
"""Each body, and the objects in it that are ours."""


def fields_of(cls: type, path: tuple[str, ...]) -> tuple[set[str], Refusals]:
    nested = {prop.name: prop.nested_type for prop in properties(cls)}
    inner: Any = nested[path[0]] if path else cls
    return {prop.name for prop in properties(inner)}, inner.foreign


def body_with(cls: type, path: tuple[str, ...], fields: dict[str, Any]) -> dict[str, Any]:
    return {**BODIES[cls], **({path[0]: fields} if path else fields)}


@pytest.mark.parametrize(("cls", "path"), LEVELS)
@pytest.mark.parametrize("spelling", [snake, camel])
def test_a_field_is_honoured_or_refused(cls: type, path: tuple[str, ...], spelling: Any) -> None:
    own, refusals = fields_of(cls, path)
    names = [name for name in map(spelling, FOREIGN) if name not in own]
    assert len(names) > 100
    for name in names:
        with pytest.raises(FieldError) as caught:
            read(cls, body_with(cls, path, {name: {"any": "value"}}))
        assert caught.value.field == ".".join((*path, name))
        known = refusals.of(name, own)
        assert known is not None
        for neutral in (None, *known.neutral):
            assert not read(cls, body_with(cls, path, {name: neutral})).unknown


@pytest.mark.parametrize(("cls", "path"), LEVELS)
def test_own_fields_have_one_spelling(cls: type, path: tuple[str, ...]) -> None:
    own, _ = fields_of(cls, path)
    for name in own:
        for other in {snake(name), camel(name)} - own:
            with pytest.raises(FieldError, match=f"{other} is not supported: write {name}$"):
                read(cls, body_with(cls, path, {other: 5}))


@pytest.mark.parametrize("cls", BODIES)
def test_no_two_fields_have_one_name(cls: type) -> None:
    names = [prop.name for prop in properties(cls)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("cls", BODIES)
def test_fields_without_effect_are_ignored(cls: type) -> None:
    own = {prop.name for prop in properties(cls)}
    ignored = [name for name in WITHOUT_EFFECT if name not in own]
    assert len(ignored) > 10
    assert read(cls, {**BODIES[cls], **dict.fromkeys(ignored, 1)}).unknown == tuple(ignored)
    assert not FOREIGN.keys() & WITHOUT_EFFECT.keys()


@pytest.mark.parametrize(
    ("cls", "fields", "message"),
    [
        (CompletionRequest, {"min_p": 0.5}, "min_p must be 0, got the number 0.5: put it into options"),
        (
            CompletionRequest,
            {"options": {"top_k": 5}},
            "options.top_k is not supported: put it beside",
        ),
        (
            CompletionRequest,
            {"options": {"seed": 5}},
            "options.seed must be -1, got the number 5: use",
        ),
        (PromptRequest, {"jsonSchema": {}}, "jsonSchema is not supported: use a route whose name has Json"),
        (
            PromptRequest,
            {"nPredict": 5},
            "nPredict must be -1, got the number 5: use the dialect's",
        ),
        (PromptRequest, {"repeat_penalty": 2}, "repeat_penalty is not supported: write repeatPenalty"),
        (ContextRequest, {"prompt": "a"}, "prompt is not supported: use userPrompt"),
        (ResponsesRequest, {"response_format": {}}, "response_format must be {"),
        (
            ResponsesRequest,
            {"text": {"regex": "a"}},
            "text.regex is not supported: it belongs to the top",
        ),
        (ChatRequest, {"text": {"format": {"type": "json_object"}}}, "text must be {"),
        (ChatRequest, {"tfs": True}, "tfs must be 1, got a boolean: the sampler"),
        (ChatRequest, {"tfs": False}, "tfs must be 1, got a boolean: the sampler"),
        (
            ChatRequest,
            {"structured_outputs": {"jsonn": {}}},
            "structured_outputs.jsonn is not supported",
        ),
        (OpenAiCompletionRequest, {"tool_choice": "required"}, 'tool_choice must be "none" or "auto"'),
    ],
    ids=lambda value: str(value)[:40],
)
def test_messages_say_what_to_do(cls: type, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(FieldError) as caught:
        read(cls, {**BODIES[cls], **fields})
    assert str(caught.value).startswith(message)


def test_empty_values_change_nothing_unless_a_constraint_may_be_empty() -> None:
    body = BODIES[OpenAiCompletionRequest]
    empties: tuple[Any, ...] = ("", [], {})
    for empty in empties:
        assert not read(OpenAiCompletionRequest, {**body, "messages": empty}).unknown
        with pytest.raises(FieldError, match="guided_structural_tag"):
            read(OpenAiCompletionRequest, {**body, "guided_structural_tag": empty})


def test_the_engines_names_are_not_those_of_refused_fields() -> None:
    body = read(ResponsesRequest, {**BODIES[ResponsesRequest], "max_output_tokens": 5}).value
    assert wire_name(body, "max_tokens") == "max_output_tokens"
