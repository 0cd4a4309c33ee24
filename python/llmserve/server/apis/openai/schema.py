"""Wire types that the OpenAI dialect's routes share. The field names exist here only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from llmserve.server.apis.openai.constraint_schema import ConstraintFields
from llmserve.server.apis.openai.formats import inner_field
from llmserve.server.fields.refused import MISPLACED
from llmserve.server.fields.sampling import MAX_COUNT, RANDOM_SEED, SAMPLING
from llmserve.server.fields.table import Differences, group
from llmserve.server.web.field_kinds import OBJECT, TEXTS
from llmserve.server.web.fields import Entry, Field, Group, Values
from llmserve.server.web.token_kinds import TOKEN_BIAS

MAX_CHOICES = 128

_PENALTY: Differences = {"minimum": 0.001, "maximum": 1000}

COMMON: Mapping[str, Differences] = {
    "temperature": {"maximum": 1e6, "default": 1.0, "example": None},
    "top_k": {"minimum": -1, "doc": "Keep the `k` likeliest tokens; 0 and -1 are off."},
    "repetition_penalty": {**_PENALTY, "wire": "repeat_penalty"},
    "seed": {"default": RANDOM_SEED},
    "logit_bias": {
        "kind": TOKEN_BIAS,
        "doc": "Added to the logits of tokens: ids or texts, with numbers from -100 to 100.",
    },
    "allowed_token_ids": {},
    "stop_token_ids": {},
    "ignore_eos": {},
    "cache_prompt": {},
    "min_tokens": {},
    "no_repeat_ngram_size": {},
    "min_tokens_to_keep": {"wire": "min_keep"},
    "repeat_last_n": {},
    "typical_p": {},
    "top_n_sigma": {},
    "xtc_probability": {},
    "xtc_threshold": {},
    "dynatemp_range": {},
    "dynatemp_exponent": {},
    "adaptive_target": {},
    "adaptive_decay": {},
    "mirostat": {},
    "mirostat_tau": {},
    "mirostat_eta": {},
    "dry_multiplier": {},
    "dry_base": {},
    "dry_allowed_length": {},
    "dry_penalty_last_n": {},
    "dry_sequence_breakers": {},
    "samplers": {},
}
"""How all routes of this dialect differ from the table."""

_VLLM_PENALTY = Entry(
    "repetition_penalty", float, Field("vLLM's name of `repeat_penalty`, which wins.", **_PENALTY)
)


def openai_sampling(defaults: Mapping[str, Any] | None = None) -> Group:
    """The sampling fields of a route, some with defaults of its own."""
    changes = {name: {**COMMON.get(name, {}), "default": value} for name, value in (defaults or {}).items()}
    return Group((*group(SAMPLING, {**COMMON, **changes}).entries, _VLLM_PENALTY), is_filled=False)


OPENAI_SAMPLING = openai_sampling()


_TOKEN_LIMITS = ("n_predict", "max_completion_tokens", "max_output_tokens", "max_tokens")


def token_limit(fields: object) -> int | None:
    """The limit on tokens: the first that is given, llama-server's before OpenAI's newer and older name."""
    limits = (getattr(fields, name, None) for name in _TOKEN_LIMITS)
    return next((limit for limit in limits if limit is not None), None)


RESPONSE_FORMAT = Field(
    "`{type: text}`, `{type: json_object}`, `{type: json_schema, json_schema: {schema}}`, `{type: regex, "
    "pattern}`, `{type: grammar, grammar}` or `{type: structural_tag, format}`. The output always conforms "
    "to it.",
    engine=("json_schema", "regex", "grammar"),
    kind=OBJECT,
    inner=inner_field,
)


MODEL = Field(
    "A model's id, as `GET /v1/models` lists them, or the path of a loaded model. Absent: the only loaded "
    "model, or else the first of that list."
)

PROMPT_LOGPROBS = Field(
    "vLLM's: give log-probabilities of the prompt, with this number of alternatives for each token. Not for "
    "streams.",
    minimum=0,
    maximum=100,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationFields(ConstraintFields):
    """How tokens are drawn and shown, with tokens that are named by their text."""

    sampling: Annotated[Values, OPENAI_SAMPLING] = field(default_factory=dict)
    """The fields that are given. The others have the defaults of the model's settings, or of the route."""
    bad_words: Annotated[
        tuple[str, ...],
        Field(
            "vLLM's: texts that are not generated, with a space before them or without, as the tokens that "
            "the model has for them.",
            engine="banned_sequences",
            kind=TEXTS,
        ),
    ] = ()
    n_predict: Annotated[
        int | None,
        Field(
            "llama-server's limit on tokens, and the one that counts if several are given; -1: up to the "
            "context length.",
            engine="max_tokens",
            is_alias=True,
            minimum=-1,
            maximum=MAX_COUNT,
        ),
    ] = None
    include_stop_str_in_output: Annotated[
        bool, Field("vLLM's: end the text with the stop string that ended the generation.")
    ] = False
    truncate_prompt_tokens: Annotated[
        int | None, Field("Keep only this number of tokens, the last ones, of each prompt.", minimum=1)
    ] = None
    t_max_predict_ms: Annotated[
        int | None,
        Field(
            "llama-server's: a time limit from the first token on, in milliseconds; it ends the text once "
            "that has a line end. 0 and -1: none.",
            minimum=-1,
            maximum=MAX_COUNT,
        ),
    ] = None

    @property
    def time_limit_s(self) -> float | None:
        """The client's time limit, in seconds."""
        milliseconds = self.t_max_predict_ms or 0
        return milliseconds / 1000 if milliseconds > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """What a stream contains beside the output."""

    include_usage: Annotated[bool, Field("Send one more chunk, without choices, with the token counts.")] = (
        False
    )
    foreign: ClassVar = MISPLACED


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotFields(GenerationFields):
    """What llama-server's clients ask of a slot and of its reports."""

    id_slot: Annotated[
        int,
        Field(
            "llama-server's: the slot whose tokens the prompt replaces and whose prefix it reuses, which is "
            "the session `slot-N`. -1: none.",
            minimum=-1,
            maximum=MAX_COUNT,
        ),
    ] = -1
    return_progress: Annotated[
        bool,
        Field("llama-server's: let a stream report how much of the prompt is computed (`prompt_progress`)."),
    ] = False
    timings_per_token: Annotated[
        bool, Field("llama-server's: give `timings` in every event of a stream, not only in its last.")
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingFields(SlotFields):
    """How tokens are drawn, and how the answer is sent."""

    model: Annotated[str | None, MODEL] = None
    n: Annotated[int, Field("Number of choices.", minimum=1, maximum=MAX_CHOICES)] = 1
    stream: Annotated[bool, Field("Answer with server-sent events.")] = False
    stream_options: Annotated[StreamOptions, Field("For streams.")] = field(default_factory=StreamOptions)
    response_format: Annotated[Mapping[str, Any] | None, RESPONSE_FORMAT] = None
    prompt_cache_key: Annotated[
        str | None, Field("Accepted without effect: equal prefixes are found without it.")
    ] = None
