"""Wire types of llama-server's `/completion` and `/infill`. Defaults are llama-server's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from llmserve.server.apis.openai.schema import (
    MAX_CHOICES,
    MODEL,
    RESPONSE_FORMAT,
    SlotFields,
    openai_sampling,
    token_limit,
)
from llmserve.server.fields.refused import Refusals
from llmserve.server.fields.samplers import NATIVE_SAMPLERS
from llmserve.server.fields.sampling import MAX_COUNT
from llmserve.server.prompts.infill import ExtraFile
from llmserve.server.refusals import FieldError
from llmserve.server.web.field_kinds import TEXT_ARRAY, read_objects
from llmserve.server.web.fields import Field, Kind, Values
from llmserve.server.web.schema import kind_of
from llmserve.server.web.token_kinds import PROMPTS, Prompts

NATIVE_SAMPLING = openai_sampling(
    {
        "temperature": 0.8,
        "top_k": 40,
        "top_p": 0.95,
        "min_p": 0.05,
        "repeat_last_n": 64,
        "samplers": NATIVE_SAMPLERS,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeFields(SlotFields):
    """What llama-server's own routes have in common. Null counts as absent."""

    model: Annotated[str | None, MODEL] = None
    n_predict: Annotated[
        int | None,
        Field(
            "Maximum number of tokens; by default and with -1 up to the context length.",
            engine="max_tokens",
            example=64,
            minimum=-1,
            maximum=MAX_COUNT,
        ),
    ] = None
    max_tokens: Annotated[
        int | None,
        Field("Another name of `n_predict`, which counts if both are given.", minimum=-1, maximum=MAX_COUNT),
    ] = None
    stream: Annotated[bool, Field("Answer with server-sent events.")] = False
    sampling: Annotated[Values, NATIVE_SAMPLING] = field(default_factory=dict)
    response_format: Annotated[Mapping[str, Any] | None, RESPONSE_FORMAT] = None
    n_cmpl: Annotated[int, Field("Number of texts for each prompt.", minimum=1, maximum=MAX_CHOICES)] = 1
    return_tokens: Annotated[
        bool, Field("Give the ids of the tokens in a whole answer as well; a stream always does.")
    ] = False
    n_probs: Annotated[
        int,
        Field(
            "Give log-probabilities of the tokens, with this many alternatives, as "
            "`completion_probabilities`; 0 is off.",
            engine="logprobs",
            minimum=0,
            maximum=100,
        ),
    ] = 0
    response_fields: Annotated[
        tuple[str, ...],
        Field(
            "Only these fields of the answer; `generation_settings/n_predict` is a field inside another.",
            kind=TEXT_ARRAY,
        ),
    ] = ()
    foreign: ClassVar = Refusals()

    @property
    def num_tokens_wanted(self) -> int:
        """The limit on tokens; -1 is the context length."""
        given = token_limit(self)
        return -1 if given is None else given


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeCompletionRequest(NativeFields):
    """A completion of one prompt or several. Null counts as absent."""

    prompt: Annotated[
        Prompts,
        Field(
            "A text, token ids, both in one array, or `{prompt_string}`, unchanged; or several of these.",
            kind=PROMPTS,
            example="Once upon a time",
        ),
    ]


def _read_extra(value: Any, name: str) -> tuple[ExtraFile, ...]:
    return tuple(_read_file(item, f"{name}[{index}]") for index, item in enumerate(read_objects(value, name)))


def _read_file(value: Mapping[str, Any], name: str) -> ExtraFile:
    text, filename = value.get("text"), value.get("filename", "tmp")
    for key, given in (("text", text), ("filename", filename)):
        if not isinstance(given, str):
            raise FieldError(f"{name}.{key}", f"must be a string, got {kind_of(given)}")
    return ExtraFile(name=str(filename), text=str(text))


_FILE_SCHEMA = {
    "type": "object",
    "required": ["text"],
    "properties": {"filename": {"type": "string"}, "text": {"type": "string"}},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InfillRequest(NativeFields):
    """Code to be written between a beginning and an end. Null counts as absent."""

    input_prefix: Annotated[str, Field("What stands before it.", engine="prompt")]
    input_suffix: Annotated[str, Field("What stands after it.")]
    prompt: Annotated[str, Field("Its beginning, which follows `input_prefix`.")] = ""
    input_extra: Annotated[
        tuple[ExtraFile, ...],
        Field(
            "Context from other files: objects with `filename` and `text`.",
            kind=Kind(_read_extra, {"type": "array", "items": _FILE_SCHEMA}),
        ),
    ] = ()
