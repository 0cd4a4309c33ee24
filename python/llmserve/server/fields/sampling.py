"""The sampling fields, and how their values become the engine's parameters."""

from __future__ import annotations

import secrets
from typing import Any

from llmserve.sampling_params import SamplingParams
from llmserve.server.fields.samplers import BREAKERS, SAMPLERS
from llmserve.server.fields.table import table
from llmserve.server.web.field_kinds import TEXTS
from llmserve.server.web.fields import Values
from llmserve.server.web.token_kinds import LOGIT_BIAS, TOKEN_IDS

RANDOM_SEED = -1
WHOLE_TEXT = -1
"""As a number of last tokens: llama-server's name of the context length."""
MAX_SEED = 2**64 - 1
MAX_COUNT = 2**32 - 1

_SAFE_SEED_BITS = 53
"""Random seeds are whole numbers that every JSON reader keeps (RFC 8259, section 6)."""

# `top_p` 0 keeps the likeliest token; the engine takes only what is above 0.
_LEAST_TOP_P = 1e-6

_COUNT = {"minimum": 0, "maximum": MAX_COUNT}
_SIZE = {"minimum": 1, "maximum": MAX_COUNT}
_SHARE = {"minimum": 0, "maximum": 1}
_PENALTY = {"minimum": -100, "maximum": 100}
_LAST_TOKENS = {"minimum": WHOLE_TEXT, "maximum": MAX_COUNT}
_AT_LEAST_0 = {"minimum": 0}

SAMPLING = table(
    SamplingParams,
    common={
        "temperature": {"minimum": 0, "example": 0.7},
        "top_p": {
            **_SHARE,
            "doc": "Keep the smallest set of tokens with at least this probability; 1 is off, 0 keeps the "
            "likeliest token only.",
            "example": 0.95,
        },
        "top_k": {**_COUNT, "example": 40},
        "min_p": _SHARE,
        "repetition_penalty": {"minimum": 0, "example": 1.1},
        "frequency_penalty": _PENALTY,
        "presence_penalty": _PENALTY,
        "seed": {
            "minimum": RANDOM_SEED,
            "maximum": MAX_SEED,
            "doc": "Seed of the draws: the same request gives the same text. If -1 or absent, it is random; "
            "the seed that was used is in `X-LLMServe-Seed`.",
        },
        "stop": {
            "kind": TEXTS,
            "doc": "Strings that end the generation and are not part of it. JSON documents ignore them.",
        },
        "logit_bias": {
            "kind": LOGIT_BIAS,
            "doc": "Added to the logits of tokens: ids, as strings, with numbers from -100 to 100.",
        },
    },
    rare={
        "max_tokens": {
            **_SIZE,
            "example": 512,
            "doc": "Maximum number of tokens to generate; the context length ends a generation, too.",
        },
        "min_tokens": _COUNT,
        "min_tokens_to_keep": _COUNT,
        "no_repeat_ngram_size": _COUNT,
        "stop_token_ids": {
            "kind": TOKEN_IDS,
            "doc": "Tokens that end the generation, at most 4,096. JSON documents ignore them.",
        },
        "allowed_token_ids": {
            "kind": TOKEN_IDS,
            "doc": "The only tokens that may be drawn, at most 4,096. Without an end-of-generation token the "
            "text ends at a limit. Refused beside a constraint on the output.",
        },
        "max_total_tokens": {**_SIZE, "doc": "Maximum number of tokens in prompt and output together."},
        "prefill_step_size": _SIZE,
        "ignore_eos": {},
        "cache_prompt": {},
        "repeat_last_n": {
            **_LAST_TOKENS,
            "doc": "The three penalties look at this many last tokens of prompt and output; 0 turns them "
            "off, -1 is all tokens. Absent: repetition looks at prompt and output, the others at the output.",
        },
        "typical_p": _SHARE,
        "top_n_sigma": {
            "minimum": -1,
            "doc": "Keep tokens whose logit is at most this many standard deviations of all logits below the "
            "largest (Tang et al. 2024); 0 and less is off.",
        },
        "xtc_probability": _SHARE,
        "xtc_threshold": _SHARE,
        "dynatemp_range": _AT_LEAST_0,
        "dynatemp_exponent": _AT_LEAST_0,
        "adaptive_target": {"minimum": -1, "maximum": 1},
        "adaptive_decay": {"minimum": 0, "maximum": 0.99},
        "mirostat": {"minimum": 0, "maximum": 2},
        "mirostat_tau": _AT_LEAST_0,
        "mirostat_eta": _AT_LEAST_0,
        "dry_multiplier": _AT_LEAST_0,
        "dry_base": {"minimum": 1},
        "dry_allowed_length": _SIZE,
        "dry_penalty_last_n": {
            **_LAST_TOKENS,
            "doc": "DRY looks for repetitions in this many last tokens of prompt and output; 0 is off, -1 is "
            "all tokens.",
        },
        "dry_sequence_breakers": {
            "kind": BREAKERS,
            "doc": "Texts that no repetition extends across, at most 64 of at most 64 characters. Default: "
            'a line end, `:`, `"` and `*`.',
        },
        "samplers": {
            "kind": SAMPLERS,
            "doc": "The samplers in their order, by name or by a text of initials; what is not named is off, "
            "and what is named twice is applied twice.",
        },
    },
)
"""Fields of `SamplingParams` that clients may set. The ranges of counts are the engine's own, others too or
narrower; every API has -1 for a random seed."""


def sampling_params(values: Values, *, seed_bits: int = _SAFE_SEED_BITS, **more: Any) -> SamplingParams:
    """The engine's parameters. A random seed is drawn here, so that a stream's head can name it.

    Raises:
        InvalidParameterError: A value that the engine refuses, under its own name.
    """
    made = {"seed": RANDOM_SEED, **values}
    if made["seed"] == RANDOM_SEED:
        made["seed"] = secrets.randbits(seed_bits)
    if "top_p" in made:
        made["top_p"] = max(made["top_p"], _LEAST_TOP_P)
    if "top_n_sigma" in made:
        made["top_n_sigma"] = max(made["top_n_sigma"], 0)
    for name in ("repeat_last_n", "dry_penalty_last_n"):
        if made.get(name) == WHOLE_TEXT:
            made[name] = MAX_COUNT
    return SamplingParams(**made, **more)


def with_defaults(params: SamplingParams, defaults: Values, given: Values) -> SamplingParams:
    """The parameters with a model's own defaults, where a client has given no value."""
    return params.replace(**{name: value for name, value in defaults.items() if name not in given})
