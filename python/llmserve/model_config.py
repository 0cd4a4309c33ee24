"""The options with which a model is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

__all__ = ["KvLayout", "KvType", "LoraAdapter", "ModelConfig", "RopeScaling"]

KvLayout: TypeAlias = Literal["auto", "per_sequence", "unified"]
KvType: TypeAlias = Literal["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"]
RopeScaling: TypeAlias = Literal["none", "linear", "yarn", "longrope"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraAdapter:
    """A LoRA adapter that is applied to every request."""

    path: str | Path
    """The GGUF file of the adapter."""
    scale: float = 1.0
    """Its weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """How a model is loaded and run; `None` leaves a choice to the engine, which logs it.

    It is checked when a model is loaded with it: `LoadError` with the reason `invalid_option` names the
    field.
    """

    context_length: int | None = None
    """The most tokens that one sequence may hold. By default the trained length, or less where half of the
    free memory does not hold one such sequence."""
    max_sequences: int | None = None
    """The most sequences that are computed together, 1 to 256. By default four for each thread, from 4 to 16,
    or 16 with a GPU, as far as the memory holds them; 64 for embedding models."""
    kv_cells: int | None = None
    """KV cells (tokens) of all sequences together, for the layout `unified`. By default what half of the free
    memory holds."""
    kv_layout: KvLayout = "auto"
    """One pool of KV cells for each sequence, or one for all. `auto`: per sequence, where half of the free
    memory holds all sequences at full length."""
    batch_size: int = 512
    """The most rows (tokens) of one step."""
    ubatch_size: int = 512
    """The most rows that are computed together."""
    threads: int | None = None
    """Compute threads. By default the cores that this process may use (affinity and cgroup quota)."""
    kv_type_k: KvType = "f16"
    """Type of the K cache."""
    kv_type_v: KvType = "f16"
    """Type of the V cache; a quantized one needs flash attention."""
    flash_attention: bool | None = None
    """Attention as one fused kernel. By default llama.cpp decides."""
    offload_kv: bool = True
    """Keep the KV cache on the GPU, where there is one."""
    swa_full: bool = False
    """Keep all cells of sliding-window layers, which makes prefix reuse possible there."""
    deterministic: bool = False
    """Compute each sequence by itself, so that no other request changes a log-probability in its last bits.

    Slow with several sequences; nothing is drafted. Needs `kv_layout` `per_sequence`, which `auto` then is.
    """
    use_mmap: bool = True
    """Map the file instead of reading it."""
    use_mlock: bool = False
    """Keep the weights from being swapped out."""
    gpu_layers: int | None = None
    """Layers on the GPU. By default all, where there is one."""
    main_gpu: int = 0
    """The GPU that holds what is not split."""
    tensor_split: tuple[float, ...] = ()
    """Share of the model for each GPU. By default llama.cpp decides."""
    rope_scaling: RopeScaling | None = None
    """Kind of RoPE scaling. By default the model's."""
    rope_freq_base: float | None = None
    """RoPE base frequency. By default the model's."""
    rope_freq_scale: float | None = None
    """RoPE frequency scaling factor. By default the model's."""
    yarn_ext_factor: float | None = None
    """YaRN extrapolation mix factor. By default the model's."""
    yarn_attn_factor: float | None = None
    """YaRN magnitude scaling factor. By default the model's."""
    yarn_beta_fast: float | None = None
    """YaRN low correction dimension. By default the model's."""
    yarn_beta_slow: float | None = None
    """YaRN high correction dimension. By default the model's."""
    yarn_orig_ctx: int | None = None
    """Context length (tokens) that the model was trained with before YaRN. By default the model's."""
    metadata_overrides: Mapping[str, int | float | bool | str] = field(default_factory=dict)
    """Metadata values that replace those of the file."""
    lora: tuple[LoraAdapter, ...] = ()
    """LoRA adapters, applied to every request."""
    max_queued_requests: int = 128
    """The most requests that wait; one more is refused."""
    max_queued_tokens: int = 1 << 20
    """The most prompt tokens that wait; a request beyond is refused, unless it is alone."""
    max_stall_ms: int = 150
    """How long running streams may stand still while prompts are computed, in milliseconds."""
    idle_step_ms: int = 500
    """How long a step may take that computes a single prompt while nobody streams, in milliseconds."""
    prefix_cache: bool = True
    """Keep the cells of finished sequences for requests with the same beginning."""
    parking_bytes: int = 512 << 20
    """Host memory for the state of preempted and cached sequences, in bytes."""
