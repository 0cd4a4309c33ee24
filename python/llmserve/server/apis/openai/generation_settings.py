"""llama-server's `generation_settings`: how the tokens of a request are drawn, by its names."""

from __future__ import annotations

import math
from typing import Any

from llmserve.sampling_params import SamplingParams
from llmserve.server.fields.sampling import MAX_COUNT, WHOLE_TEXT


def generation_settings(params: SamplingParams) -> dict[str, Any]:
    """The settings of parameters. What llmserve has not is there with the value that is off."""
    max_tokens = -1 if params.max_tokens is None else params.max_tokens
    return {
        "seed": params.seed,
        "temperature": params.temperature,
        "dynatemp_range": params.dynatemp_range,
        "dynatemp_exponent": params.dynatemp_exponent,
        "top_k": params.top_k,
        "top_p": params.top_p,
        "min_p": params.min_p,
        "top_n_sigma": params.top_n_sigma or -1.0,
        "xtc_probability": params.xtc_probability,
        "xtc_threshold": params.xtc_threshold,
        "typical_p": params.typical_p,
        "repeat_last_n": _last_tokens(params.repeat_last_n),
        "repeat_penalty": params.repetition_penalty,
        "presence_penalty": params.presence_penalty,
        "frequency_penalty": params.frequency_penalty,
        "dry_multiplier": params.dry_multiplier,
        "dry_base": params.dry_base,
        "dry_allowed_length": params.dry_allowed_length,
        "dry_penalty_last_n": _last_tokens(params.dry_penalty_last_n),
        "dry_sequence_breakers": list(params.dry_sequence_breakers),
        "mirostat": params.mirostat,
        "mirostat_tau": params.mirostat_tau,
        "mirostat_eta": params.mirostat_eta,
        "adaptive_target": params.adaptive_target,
        "adaptive_decay": params.adaptive_decay,
        "stop": list(params.stop),
        "max_tokens": max_tokens,
        "n_predict": max_tokens,
        "n_keep": 0,
        "n_discard": 0,
        "ignore_eos": params.ignore_eos,
        "logit_bias": [
            {"token": token, "bias": bias if math.isfinite(bias) else None}
            for token, bias in params.logit_bias.items()
        ],
        "n_probs": params.logprobs or 0,
        "min_keep": params.min_tokens_to_keep,
        "grammar": params.grammar or "",
        "json_schema": params.json_schema or "",
        "samplers": list(params.samplers),
        "cache_prompt": params.cache_prompt,
        "post_sampling_probs": False,
        "backend_sampling": False,
        "lora": [],
    }


def _last_tokens(number: int | None) -> int:
    return WHOLE_TEXT if number in (None, MAX_COUNT) else number
