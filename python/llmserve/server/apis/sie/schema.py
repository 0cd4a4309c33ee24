"""Wire types of the SIE dialect. The field names exist here only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from llmserve.server.fields.sampling import SAMPLING
from llmserve.server.fields.table import Differences, group
from llmserve.server.refusals import FieldError, FieldTooLongError
from llmserve.server.web.field_kinds import OBJECT, TEXT_ARRAY, read_text, text_of_at_most
from llmserve.server.web.fields import Field, Kind, Values
from llmserve.server.web.schema import shown
from llmserve.server.web.token_kinds import logit_bias

MAX_PROMPT_BYTES = 4 << 20
MAX_REGEX_CHARS = 4096
MAX_EBNF_CHARS = 8192
MAX_BIASES = 1024

_PENALTY = {"minimum": -2, "maximum": 2}
_SAMPLING: dict[str, Differences] = {
    "temperature": {"doc": "0 is greedy. Default: 1, or 0 with a `grammar`."},
    "top_p": {
        "minimum": None,
        "above": 0,
        "example": 0.9,
        "doc": "Keep the smallest set of tokens with at least this probability; 1, the default, is off.",
    },
    "frequency_penalty": _PENALTY,
    "presence_penalty": _PENALTY,
    "seed": {
        "format": "int64",
        "minimum": None,
        "maximum": None,
        "is_exact": True,
        "doc": "Seed of the draws, which may be negative. Default: a random one, in `X-LLMServe-Seed`.",
    },
    "stop": {"kind": TEXT_ARRAY},
    "logit_bias": {"kind": logit_bias(MAX_BIASES), "example": {"50256": -100}},
}
_NEVER = ("min_p", "repetition_penalty")

_AT_TOP = group(SAMPLING, _SAMPLING, without=(*_NEVER, "top_k"), has_defaults=False)
_DEFAULTS = group(
    SAMPLING,
    {
        **_SAMPLING,
        "top_k": {"format": "int32", "minimum": 1, "maximum": None},
        "min_tokens": {"wire": "min_new_tokens", "format": "int32", "maximum": None},
    },
    without=(*_NEVER, "stop", "logit_bias"),
    has_defaults=False,
)


def _read_prompt(value: Any, name: str) -> str:
    text = read_text(value, name)
    # The length in characters is a cheap lower bound.
    num_bytes = len(text) if len(text) > MAX_PROMPT_BYTES else len(text.encode())
    if num_bytes > MAX_PROMPT_BYTES:
        raise FieldTooLongError(name, MAX_PROMPT_BYTES)
    return text


def _read_profile(value: Any, name: str) -> str:
    if value != "default":
        raise FieldError(name, f"must be null or 'default', got {shown(value)}")
    return "default"


def _drop_text(value: Any, name: str) -> None:
    """Discards the text, and leaves it out of the refusal as well."""
    if not isinstance(value, str):
        raise FieldError(name, "must be a string")


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateGrammar:
    """What the output must be: exactly one of `json_schema`, `regex` and `ebnf`."""

    json_schema: Annotated[
        dict[str, Any] | None,
        Field(
            "The output is a JSON document that this JSON Schema accepts.",
            kind=OBJECT,
        ),
    ] = None
    regex: Annotated[
        str | None,
        Field(
            f"The output matches this regular expression as a whole; at most {MAX_REGEX_CHARS} characters.",
            kind=text_of_at_most(MAX_REGEX_CHARS),
        ),
    ] = None
    ebnf: Annotated[
        str | None,
        Field(
            f"The output conforms to this grammar; at most {MAX_EBNF_CHARS} characters. With `::=` "
            "it is GBNF (`root` is its start), otherwise Lark as llguidance reads it (`start`).",
            example='root ::= "yes" | "no"',
            engine="grammar",
            kind=text_of_at_most(MAX_EBNF_CHARS),
        ),
    ] = None
    label: Annotated[str | None, Field("A name for people; it has no effect.")] = None
    strict: Annotated[bool | None, Field("No effect: the output always conforms to the grammar.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultSampling:
    """Sampling fields for requests that do not set them at the top level."""

    sampling: Annotated[Values, _DEFAULTS] = field(default_factory=_DEFAULTS.defaults)


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateOptions:
    """Runtime options. Fields at the top level win. Times are in seconds, from the end of loading."""

    default_sampling: Annotated[
        DefaultSampling, Field("Sampling fields that apply if the top level does not set them.")
    ] = field(default_factory=DefaultSampling)
    stop_tokens: Annotated[
        tuple[str, ...],
        Field(
            "Texts that end the output and are not part of it. One that is a single token of the model's "
            "vocabulary, such as `<|im_end|>`, is a stop token.",
            engine="stop_token_ids",
            kind=TEXT_ARRAY,
        ),
    ] = ()
    first_chunk_timeout_s: Annotated[
        float | None,
        Field(
            "Time limit for the first output; for loading, too.",
            above=0,
        ),
    ] = None
    inter_chunk_timeout_s: Annotated[
        float | None,
        Field("Time limit between two outputs.", above=0),
    ] = None
    overall_timeout_s: Annotated[
        float | None,
        Field("Time limit for the whole generation.", above=0),
    ] = None
    profile: Annotated[
        str | None,
        Field("There is one profile, `default`.", kind=Kind(_read_profile, {"enum": [None, "default"]})),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateRequest:
    """What to generate. `null` counts as absent; unknown fields are refused."""

    prompt: Annotated[
        str,
        Field(
            "The text to continue, unchanged: no chat template is applied, and text of control tokens is "
            "read as control tokens. At most 4 MiB of UTF-8.",
            example="Write one sentence about vector search.",
            kind=Kind(_read_prompt, {"type": "string", "minLength": 1}),
        ),
    ]
    max_new_tokens: Annotated[
        int,
        Field(
            "Maximum number of tokens to generate. Prompt and output must fit into the context length.",
            engine="max_tokens",
            example=64,
            minimum=1,
        ),
    ]
    sampling: Annotated[Values, _AT_TOP] = field(default_factory=_AT_TOP.defaults)
    options: Annotated[GenerateOptions, Field("Runtime options.")] = field(default_factory=GenerateOptions)
    stream: Annotated[bool, Field("Answer with server-sent events.")] = False
    grammar: Annotated[GenerateGrammar | None, Field("The format of the output; at most 64 KiB of JSON.")] = (
        None
    )
    logprobs: Annotated[bool, Field("Log-probabilities of the tokens. Needs `stream`.")] = False
    top_logprobs: Annotated[
        int | None,
        Field("Number of alternatives for each token. Needs `logprobs` and `stream`.", minimum=0, maximum=20),
    ] = None
    routing_key: Annotated[str | None, Field("No effect: there is only one server.")] = None
    prompt_cache_key: Annotated[
        str | None,
        Field(
            "No effect of its own: all requests to a model share one prefix cache, which finds equal "
            "beginnings by their tokens."
        ),
    ] = None
    safety_identifier: Annotated[
        None,
        Field(
            "Checked to be a string, then dropped: not logged, not forwarded.",
            kind=Kind(_drop_text, {"type": "string"}),
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedTokens:
    """Details of the prompt's tokens."""

    cached_tokens: Annotated[int, Field("Prompt tokens that were taken from the prefix cache.", example=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateUsage:
    """Token counts."""

    prompt_tokens: Annotated[int, Field("Number of prompt tokens.", example=8)]
    completion_tokens: Annotated[
        int, Field("Number of generated tokens, including the one that ends the text.", example=21)
    ]
    total_tokens: Annotated[int, Field("Both.", example=29)]
    prompt_tokens_details: Annotated[CachedTokens, Field("Details of the prompt.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateResponse:
    """The answer of a request without `stream`."""

    model: Annotated[str, Field("The canonical id.", example="Qwen/Qwen3-4B-Instruct")]
    text: Annotated[str, Field("The generated text.", example=" It finds what is near in meaning.")]
    finish_reason: Annotated[str, Field("`stop` or `length`.", example="stop")]
    usage: Annotated[GenerateUsage, Field("Token counts.")]
