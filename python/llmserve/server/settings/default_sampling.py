"""The setting `default_sampling`: how tokens are drawn where a request does not say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmserve.errors import InvalidParameterError
from llmserve.sampling_params import SamplingParams
from llmserve.server.settings.kinds import Kind, parse_object

NAMES = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "min_tokens_to_keep",
    "repetition_penalty",
    "frequency_penalty",
    "presence_penalty",
    "no_repeat_ngram_size",
    "repeat_last_n",
    "typical_p",
    "top_n_sigma",
    "xtc_probability",
    "xtc_threshold",
    "dynatemp_range",
    "dynatemp_exponent",
    "adaptive_target",
    "adaptive_decay",
    "mirostat",
    "mirostat_tau",
    "mirostat_eta",
    "dry_multiplier",
    "dry_base",
    "dry_allowed_length",
    "dry_penalty_last_n",
    "dry_sequence_breakers",
    "samplers",
)
"""Fields of `SamplingParams` that may have a default."""


def _parse(text: str) -> Mapping[str, Any]:
    values = parse_object(text)
    for name in values:
        if name not in NAMES:
            raise ValueError(f"must have only {', '.join(NAMES)}, got {name!r}")
    try:
        SamplingParams(**values)
    except InvalidParameterError as error:
        raise ValueError(f"has a wrong value: {error}") from None
    return values


DEFAULT_SAMPLING = Kind('a JSON object, such as `{"temperature": 0.7, "top_p": 0.8}`', _parse, "JSON")
