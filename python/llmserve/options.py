"""Keyword arguments as type checkers know them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from llmserve._binding.schemas import JsonSchema
from llmserve.chat import NextTurn
from llmserve.drafting import Drafting
from llmserve.model_config import KvLayout, KvType, LoraAdapter, RopeScaling
from llmserve.session import AnySession
from llmserve.tenant import Tenant

__all__ = ["ModelOptions", "RequestOptions", "SamplingOptions", "UnconstrainedOptions"]


class ModelOptions(TypedDict, total=False):
    """Fields of `ModelConfig`."""

    context_length: int | None
    max_sequences: int | None
    kv_cells: int | None
    kv_layout: KvLayout
    batch_size: int
    ubatch_size: int
    threads: int | None
    kv_type_k: KvType
    kv_type_v: KvType
    flash_attention: bool | None
    offload_kv: bool
    swa_full: bool
    deterministic: bool
    use_mmap: bool
    use_mlock: bool
    gpu_layers: int | None
    main_gpu: int
    tensor_split: tuple[float, ...]
    rope_scaling: RopeScaling | None
    rope_freq_base: float | None
    rope_freq_scale: float | None
    yarn_ext_factor: float | None
    yarn_attn_factor: float | None
    yarn_beta_fast: float | None
    yarn_beta_slow: float | None
    yarn_orig_ctx: int | None
    metadata_overrides: Mapping[str, int | float | bool | str]
    lora: tuple[LoraAdapter, ...]
    chat_template: str | None
    max_queued_requests: int
    max_queued_tokens: int
    max_stall_ms: int
    idle_step_ms: int
    prefix_cache: bool
    parking_bytes: int


class UnconstrainedOptions(TypedDict, total=False):
    """Fields of `SamplingParams`, but for those that say what the output must be."""

    max_tokens: int | None
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    typical_p: float
    top_n_sigma: float
    xtc_probability: float
    xtc_threshold: float
    dynatemp_range: float
    dynatemp_exponent: float
    adaptive_target: float
    adaptive_decay: float
    mirostat: int
    mirostat_tau: float
    mirostat_eta: float
    samplers: Sequence[str]
    min_tokens_to_keep: int
    repetition_penalty: float
    frequency_penalty: float
    presence_penalty: float
    repeat_last_n: int | None
    dry_multiplier: float
    dry_base: float
    dry_allowed_length: int
    dry_penalty_last_n: int
    dry_sequence_breakers: Sequence[str]
    no_repeat_ngram_size: int
    logit_bias: Mapping[int, float]
    banned_sequences: Sequence[Sequence[int]]
    allowed_token_ids: Sequence[int] | None
    seed: int | None
    choice_index: int
    min_tokens: int
    ignore_eos: bool
    stop: Sequence[str]
    stop_token_ids: Sequence[int]
    max_total_tokens: int | None
    logprobs: int | None
    prompt_logprobs: int | None
    prompt_progress: bool
    cache_prompt: bool
    prefill_step_size: int | None


class SamplingOptions(UnconstrainedOptions, total=False):
    """Fields of `SamplingParams`."""

    json_schema: JsonSchema | None
    regex: str | None
    grammar: str | None


class RequestOptions(UnconstrainedOptions, total=False):
    """Arguments of `Engine.generate`, but for those that say what the output must be."""

    add_special: bool
    parse_special: bool
    session: AnySession | None
    append: bool | NextTurn
    templated: bool
    drafting: Drafting | Literal[False] | None
    tenant: Tenant | None
