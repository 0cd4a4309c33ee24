"""The fields of a completion: names, types, limits and defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from llmserve.server.fields.foreign import FOREIGN, Refused
from llmserve.server.fields.refused import Refusals
from llmserve.server.fields.sampling import RANDOM_SEED, SAMPLING
from llmserve.server.fields.table import group
from llmserve.server.web.fields import Field, Kind, Values
from llmserve.server.web.token_kinds import WirePrompt, read_prompt

SEED_BITS = 31

# Numbers below a range count as 0: off, or the default.
_COUNT = {"format": "int32", "minimum": None, "maximum": None, "default": 0}
_NUMBER = {"format": "float", "minimum": None}

_PLAIN = ("temperature", "top_p", "top_k")
"""Fields beside `options`."""

_OPTIONS = group(
    SAMPLING,
    {
        "min_p": {**_NUMBER, "default": 0.05, "example": 0.05},
        "min_tokens_to_keep": {**_COUNT, "default": 1},
        "repetition_penalty": _NUMBER,
        "no_repeat_ngram_size": _COUNT,
        "seed": {
            "wire": "random_seed",
            "default": RANDOM_SEED,
            "example": 42,
            "format": "int32",
            "maximum": 2**SEED_BITS - 1,
        },
        "max_total_tokens": {
            **_COUNT,
            "wire": "max_kv_size",
            "doc": "Limit on the tokens of prompt and output together; a longer prompt is refused. 0 is the "
            "context length.",
        },
        "prefill_step_size": {
            **_COUNT,
            "doc": "Maximum number of prompt tokens that are computed in one step. 0 is as the server plans.",
        },
    },
    without=(*_PLAIN, "frequency_penalty", "presence_penalty", "stop", "logit_bias"),
)
_SAMPLING = group(
    SAMPLING,
    {
        "temperature": _NUMBER,
        "top_p": {
            **_NUMBER,
            "default": 0.0,
            "doc": "Keep the smallest set of tokens with at least this probability; 0 and 1 are off.",
        },
        "top_k": _COUNT,
    },
    only=_PLAIN,
)
_BESIDE = Refused("put it beside options")
_IN_OPTIONS = Refused("put it into options")
_OPTION_NAMES = ("min_p", "repetition_penalty", "no_repeat_ngram_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionOptions:
    """Advanced sampling and inference options. All fields are optional; negative numbers count as 0."""

    sampling: Annotated[Values, _OPTIONS] = field(default_factory=_OPTIONS.defaults)
    length_penalty: Annotated[
        float | None, Field("Belongs to beam search: accepted and reported as ignored.", format="float")
    ] = None
    diversity_penalty: Annotated[
        float | None, Field("Belongs to beam search: accepted and reported as ignored.", format="float")
    ] = None
    kv_bits: Annotated[
        int | None,
        Field(
            "KV cache quantization bits: a setting of the server, reported as ignored unless it is the "
            "model's.",
            format="int32",
        ),
    ] = None
    kv_group_size: Annotated[
        int | None,
        Field("KV cache quantization group size: accepted and reported as ignored.", format="int32"),
    ] = None
    quantized_kv_start: Annotated[
        int | None,
        Field(
            "Layer index where quantized KV cache starts: a setting of the server, reported as ignored "
            "unless it is the model's (0 with a quantized cache).",
            format="int32",
        ),
    ] = None
    foreign: ClassVar = Refusals(
        {
            **dict.fromkeys((*_PLAIN, "max_tokens", "prompt"), _BESIDE),
            "seed": Refused("use random_seed", (-1,)),
        }
    )


_PROMPT = Kind(read_prompt, {"type": "string"})
"""A text, for the document: other forms are llama-server's, which its clients know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest:
    """What to generate. Negative numbers count as 0, null as absent."""

    model: Annotated[
        str,
        Field(
            "Path of a loaded model; links are followed on both sides.",
            example="/models/SmolLM2-135M-Instruct-Q4_K_M.gguf",
            non_empty=True,
        ),
    ]
    prompt: Annotated[
        WirePrompt,
        Field(
            "Input text to generate from, unchanged: the text of control tokens is read as control tokens. "
            "As in llama-server also token ids, both in one array, or `{prompt_string}`.",
            kind=_PROMPT,
            example="<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n",
        ),
    ]
    stream: Annotated[bool, Field("If true, tokens are streamed via SSE as they are generated.")] = False
    max_tokens: Annotated[
        int,
        Field(
            "Maximum number of tokens to generate; the context length ends generation too. 0 means no "
            "generation.",
            example=100,
        ),
    ] = 0
    sampling: Annotated[Values, _SAMPLING] = field(default_factory=_SAMPLING.defaults)
    options: Annotated[CompletionOptions, Field("Advanced sampling and inference options.")] = field(
        default_factory=CompletionOptions
    )
    foreign: ClassVar = Refusals(
        {
            **{name: _IN_OPTIONS._replace(neutral=FOREIGN[name].neutral) for name in _OPTION_NAMES},
            "random_seed": _IN_OPTIONS,
            "seed": Refused("use random_seed in options", (-1,)),
        }
    )
