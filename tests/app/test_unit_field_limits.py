"""Errors about a bound say which it is, as data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from llmserve import BudgetTooSmallError, Drafting, InvalidParameterError, SamplingParams
from llmserve.drafting import DraftingOptions
from llmserve.server.apis.anthropic.schema import MessagesRequest
from llmserve.server.apis.completions.schema import CompletionRequest
from llmserve.server.apis.llamatik.schema import ParamsFields, PromptRequest
from llmserve.server.apis.openai.chat_schema import ChatRequest
from llmserve.server.apis.openai.completions_schema import OpenAiCompletionRequest
from llmserve.server.apis.openai.responses_schema import ResponsesRequest
from llmserve.server.apis.sie.schema import GenerateRequest
from llmserve.server.fields.sampling import SAMPLING
from llmserve.server.grammars.requested import MAX_GRAMMAR_BYTES
from llmserve.server.refusals import FieldError, FieldTooLongError
from llmserve.server.web.field_kinds import MESSAGES, text_of_at_most
from llmserve.server.web.fields import Property, properties
from llmserve.server.web.schema import MAX_FIELDS, read
from llmserve.server.web.token_kinds import MAX_BIAS, PROMPTS, logit_bias

REQUESTS = (
    ChatRequest,
    CompletionRequest,
    GenerateRequest,
    MessagesRequest,
    OpenAiCompletionRequest,
    ParamsFields,
    PromptRequest,
    ResponsesRequest,
)


def bounded() -> Iterator[tuple[type, Property, float, float]]:
    """Every number of every request, with each bound that is declared and a value beyond it."""
    for cls in REQUESTS:
        for prop in properties(cls):
            if prop.type in (int, float) and prop.field.kind is None:
                if (low := prop.field.minimum) is not None:
                    yield cls, prop, low, low - 1
                if (high := prop.field.maximum) is not None and abs(high) < 2**53:
                    yield cls, prop, high, high + 1


@pytest.mark.parametrize(
    ("cls", "prop", "limit", "beyond"),
    [pytest.param(*case, id=f"{case[0].__name__}.{case[1].name}-{case[2]}") for case in bounded()],
)
def test_the_bounds_of_the_table(cls: type, prop: Property, limit: float, beyond: float) -> None:
    needed: dict[str, Any] = {"model": "m", "prompt": "p", "messages": [{"role": "user"}], "input": "i"}
    needed |= {"max_new_tokens": 1}
    with pytest.raises(FieldError) as refusal:
        read(cls, {**needed, prop.name: beyond})
    error = refusal.value
    assert (error.field, error.limit) == (prop.name, limit)
    assert error.reason.startswith("must be at ")


@pytest.mark.parametrize(
    ("kind", "value", "limit"),
    [
        (text_of_at_most(3), "four", 3),
        (logit_bias(1), {"1": 1, "2": 1}, 1),
        (logit_bias(), {"1": 101}, MAX_BIAS),
        (logit_bias(), {"1": -101}, -MAX_BIAS),
        (PROMPTS, [-1], 0),
        (PROMPTS, [2**31], 2**31 - 1),
        (MESSAGES, [], 1),
        (MESSAGES, "no array", None),
        (logit_bias(), {"x": 1}, None),
    ],
)
def test_the_bounds_of_kinds(kind: Any, value: Any, limit: float | None) -> None:
    with pytest.raises(FieldError) as refusal:
        kind.read(value, "field")
    assert refusal.value.limit == limit


def test_other_refusals_of_fields() -> None:
    with pytest.raises(FieldError) as wide:
        read(PromptRequest, {"prompt": "p", **{str(number): 1 for number in range(MAX_FIELDS)}})
    assert wide.value.limit == MAX_FIELDS
    with pytest.raises(FieldError) as infinite:
        read(PromptRequest, {"prompt": "p", "temperature": math.inf})
    assert infinite.value.limit is None
    assert FieldTooLongError("grammar", MAX_GRAMMAR_BYTES).limit == MAX_GRAMMAR_BYTES
    assert FieldError("prompt", "is required").limit is None


@pytest.mark.parametrize(("draft_len", "limit"), [(0, 1), (9, 8), ("3", None)])
def test_the_python_api(draft_len: Any, limit: int | None) -> None:
    with pytest.raises(InvalidParameterError) as refusal:
        Drafting(DraftingOptions("mtp", draft_len, True), None)
    error = refusal.value.named("draftLen")
    assert (error.field, error.limit) == ("draftLen", limit)
    assert str(error) == f"draftLen: {error.reason}"


def test_a_budget_has_the_shortest_documents_length_as_its_limit() -> None:
    error = BudgetTooSmallError("must be at least 7", minimum=7, budget=3).named("maxTokens")
    assert (error.field, error.reason, error.limit) == ("maxTokens", "must be at least 7", 7)
    assert str(error) == "maxTokens: must be at least 7"


def test_a_reason_may_hold_what_looks_like_a_field() -> None:
    error = InvalidParameterError("a: is in it", field="a", limit=2)
    assert (str(error), error.reason, error.limit) == ("a: a: is in it", "a: is in it", 2)
    assert str(error.named("b")) == "b: a: is in it"


@pytest.mark.parametrize(
    "name", [name for name, known in SAMPLING.items() if known.field.maximum is not None]
)
def test_the_ranges_are_those_of_the_python_api(name: str) -> None:
    field = SAMPLING[name].field
    assert field.minimum is not None
    assert field.maximum is not None

    def make(value: Any) -> None:
        SamplingParams(**{name: value})

    # Each API has -1 for a random seed and for all tokens, and 0 of `top_p` for the likeliest token.
    least = field.minimum + (name in ("seed", "top_p", "repeat_last_n", "dry_penalty_last_n"))
    for bound, beyond in ((least, least - 1), (field.maximum, field.maximum + 1)):
        make(bound)
        with pytest.raises(InvalidParameterError):
            make(beyond)
