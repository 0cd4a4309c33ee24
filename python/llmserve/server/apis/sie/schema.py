"""Wire types of the SIE dialect. The field names exist here only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from llmserve.server.apis.sie import readers
from llmserve.server.web.schema import Field


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateGrammar:
    """What the output must be: exactly one of `json_schema`, `regex` and `ebnf`."""

    json_schema: Annotated[
        dict[str, Any] | None,
        Field(
            "The output is a JSON document that this JSON Schema accepts.",
            read=readers.read_object,
            schema={"type": "object"},
        ),
    ] = None
    regex: Annotated[
        str | None,
        Field(
            f"The output matches this regular expression as a whole; at most {readers.MAX_REGEX_CHARS} "
            "characters.",
            read=readers.text_of_at_most(readers.MAX_REGEX_CHARS),
            schema={"type": "string", "minLength": 1, "maxLength": readers.MAX_REGEX_CHARS},
        ),
    ] = None
    ebnf: Annotated[
        str | None,
        Field(
            f"The output is a text of this grammar; at most {readers.MAX_EBNF_CHARS} characters. With `::=` "
            "it is GBNF (`root` is its start), else Lark as llguidance reads it (`start`).",
            example='root ::= "yes" | "no"',
            read=readers.text_of_at_most(readers.MAX_EBNF_CHARS),
            schema={"type": "string", "minLength": 1, "maxLength": readers.MAX_EBNF_CHARS},
        ),
    ] = None
    label: Annotated[str | None, Field("A name for people. Without effect.")] = None
    strict: Annotated[bool | None, Field("Without effect: the output always keeps to the grammar.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultSampling:
    """Sampling fields for requests that do not give them at top level."""

    temperature: Annotated[float | None, Field("See the top level.", format="float", minimum=0)] = None
    top_p: Annotated[
        float | None, Field("See the top level.", read=readers.read_share, schema=readers.SHARE_SCHEMA)
    ] = None
    frequency_penalty: Annotated[float | None, Field("See the top level.", minimum=-2, maximum=2)] = None
    presence_penalty: Annotated[float | None, Field("See the top level.", minimum=-2, maximum=2)] = None
    top_k: Annotated[
        int | None, Field("Keep so many of the likeliest tokens.", format="int32", minimum=1)
    ] = None
    min_new_tokens: Annotated[
        int | None,
        Field("The output does not end by itself before so many tokens.", format="int32", minimum=0),
    ] = None
    seed: Annotated[
        int | None, Field("See the top level.", read=readers.read_seed, schema=readers.SEED_SCHEMA)
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateOptions:
    """Runtime options. Fields at top level win. Times are in seconds and count from the end of loading."""

    default_sampling: Annotated[DefaultSampling, Field("Sampling where the top level says nothing.")] = field(
        default_factory=DefaultSampling
    )
    stop_tokens: Annotated[
        tuple[str, ...],
        Field(
            "Tokens that end the output and are no part of it, such as `<|im_end|>`. Each must be one token "
            "of the model's vocabulary.",
            read=readers.read_stop_texts,
            schema=readers.STOP_TEXTS_SCHEMA,
        ),
    ] = ()
    first_chunk_timeout_s: Annotated[
        float | None,
        Field(
            "The longest time to the first output; for loading, too.",
            read=readers.read_seconds,
            schema=readers.SECONDS_SCHEMA,
        ),
    ] = None
    inter_chunk_timeout_s: Annotated[
        float | None,
        Field(
            "The longest time between two outputs.", read=readers.read_seconds, schema=readers.SECONDS_SCHEMA
        ),
    ] = None
    overall_timeout_s: Annotated[
        float | None,
        Field("The longest time for all of it.", read=readers.read_seconds, schema=readers.SECONDS_SCHEMA),
    ] = None
    profile: Annotated[
        str | None,
        Field(
            "There is one profile, `default`.", read=readers.read_profile, schema={"enum": [None, "default"]}
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateRequest:
    """What to generate. `null` counts as absent; unknown fields are refused."""

    prompt: Annotated[
        str,
        Field(
            "The text to go on from, as it is: no chat template is applied, and text of control tokens is "
            "read as control tokens. At most 4 MiB of UTF-8.",
            example="Write one sentence about vector search.",
            read=readers.read_prompt,
            schema={"type": "string", "minLength": 1},
        ),
    ]
    max_new_tokens: Annotated[
        int,
        Field(
            "The most tokens to generate. Prompt and output together must fit into the context length.",
            example=64,
            minimum=1,
        ),
    ]
    temperature: Annotated[
        float | None,
        Field("0 is greedy. Default: 1, or 0 with a `grammar`.", example=0.7, format="float", minimum=0),
    ] = None
    top_p: Annotated[
        float | None,
        Field(
            "Nucleus sampling: keep the smallest set of tokens with at least this probability. Default: 1.",
            example=0.9,
            read=readers.read_share,
            schema=readers.SHARE_SCHEMA,
        ),
    ] = None
    options: Annotated[GenerateOptions, Field("Runtime options.")] = field(default_factory=GenerateOptions)
    stop: Annotated[
        tuple[str, ...],
        Field(
            "Texts that end the output and are no part of it. JSON takes none.",
            read=readers.read_stop_texts,
            schema=readers.STOP_TEXTS_SCHEMA,
        ),
    ] = ()
    stream: Annotated[bool, Field("Answer with server-sent events.")] = False
    frequency_penalty: Annotated[
        float | None, Field("Default: 0.", format="double", minimum=-2, maximum=2)
    ] = None
    presence_penalty: Annotated[
        float | None, Field("Default: 0.", format="double", minimum=-2, maximum=2)
    ] = None
    grammar: Annotated[GenerateGrammar | None, Field("What the output must be; at most 64 KiB of JSON.")] = (
        None
    )
    seed: Annotated[
        int | None,
        Field(
            "A signed 64-bit integer that keys every draw. Default: a random one, in `X-LLMServe-Seed`.",
            read=readers.read_seed,
            schema=readers.SEED_SCHEMA,
        ),
    ] = None
    logit_bias: Annotated[
        Mapping[int, float],
        Field(
            f"Added to the logits of tokens: id as a string -> -100 to 100. At most {readers.MAX_BIASES}.",
            example={"50256": -100},
            read=readers.read_logit_bias,
            schema=readers.LOGIT_BIAS_SCHEMA,
        ),
    ] = field(default_factory=dict)
    logprobs: Annotated[bool, Field("Log-probabilities of the tokens. Needs `stream`.")] = False
    top_logprobs: Annotated[
        int | None,
        Field("So many alternatives for each token. Needs `logprobs` and `stream`.", minimum=0, maximum=20),
    ] = None
    routing_key: Annotated[str | None, Field("Without effect: there is one server.")] = None
    prompt_cache_key: Annotated[
        str | None,
        Field(
            "Without effect of its own: all requests to a model share one prefix cache, which finds equal "
            "beginnings by their tokens."
        ),
    ] = None
    safety_identifier: Annotated[
        None,
        Field(
            "Checked to be a string, then dropped: not logged, not forwarded.",
            read=readers.drop_text,
            schema={"type": "string"},
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedTokens:
    """Of the prompt's tokens."""

    cached_tokens: Annotated[int, Field("Those that were taken from the prefix cache.", example=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateUsage:
    """Token counts."""

    prompt_tokens: Annotated[int, Field("Tokens of the prompt.", example=8)]
    completion_tokens: Annotated[int, Field("Drawn tokens, the one that ends the text included.", example=21)]
    total_tokens: Annotated[int, Field("Both.", example=29)]
    prompt_tokens_details: Annotated[CachedTokens, Field("More about the prompt.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateResponse:
    """The answer of a request without `stream`."""

    model: Annotated[str, Field("The canonical id.", example="Qwen/Qwen3-4B-Instruct")]
    text: Annotated[str, Field("The generated text.", example=" It finds what is near in meaning.")]
    finish_reason: Annotated[str, Field("`stop` or `length`.", example="stop")]
    usage: Annotated[GenerateUsage, Field("Token counts.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateFault:
    """What went wrong."""

    code: Annotated[
        str, Field("A stable name; also in the header `X-SIE-Error-Code`.", example="invalid_request")
    ]
    message: Annotated[str, Field("For people.", example="max_new_tokens is required")]
    param: Annotated[str | None, Field("The field, where it is one.", example="max_new_tokens")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateError:
    """The body of an error."""

    error: Annotated[GenerateFault, Field("What went wrong.")]
