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
    """The adapter's weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """How a model is loaded and run; `None` leaves the choice to the engine, which logs it.

    The options are validated when a model is loaded: a `LoadError` with the reason `invalid_option` names the
    field.
    """

    context_length: int | None = None
    """Maximum number of tokens in one sequence, prompt and output together. By default the trained length, or
    less if half of the free memory cannot hold one such sequence."""
    max_sequences: int | None = None
    """Maximum number of sequences that are computed together, 1 to 256. By default four per thread (from 4 to
    16), or 16 with a GPU, or fewer if memory is short; 64 for embedding models."""
    kv_cells: int | None = None
    """Total number of KV cells (tokens) of all sequences, for the layout `unified`. By default as many as fit
    into half of the free memory."""
    kv_layout: KvLayout = "auto"
    """A pool of KV cells for each sequence, or one for all. `auto`: one for each if half of the free memory
    can hold all sequences at full length."""
    batch_size: int = 512
    """Maximum number of rows (tokens) in one step."""
    ubatch_size: int = 512
    """Maximum number of rows that are computed together."""
    threads: int | None = None
    """Number of compute threads. By default the number of cores that the process may use (CPU affinity and
    cgroup quota)."""
    kv_type_k: KvType = "f16"
    """Data type of the K cache."""
    kv_type_v: KvType = "f16"
    """Data type of the V cache; a quantized type needs flash attention."""
    flash_attention: bool | None = None
    """Flash attention. By default llama.cpp decides."""
    offload_kv: bool = True
    """Keep the KV cache on the GPU, if there is one."""
    swa_full: bool = False
    """Keep all KV cells of sliding-window layers, which makes prefix reuse possible for them."""
    deterministic: bool = False
    """Compute each sequence separately, so that other requests cannot change its log-probabilities.

    Slow with several sequences, and without drafting. Needs the `kv_layout` `per_sequence`, which `auto` then
    selects.
    """
    use_mmap: bool = True
    """Map the model file into memory instead of reading it."""
    use_mlock: bool = False
    """Lock the weights in memory, so that they are not swapped out."""
    gpu_layers: int | None = None
    """Number of layers on the GPU. By default all of them, if there is a GPU."""
    main_gpu: int = 0
    """Index of the GPU that holds everything that is not split."""
    tensor_split: tuple[float, ...] = ()
    """Proportion of the model on each GPU. By default llama.cpp decides."""
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
    """GGUF metadata values that override those in the file."""
    lora: tuple[LoraAdapter, ...] = ()
    """LoRA adapters, applied to every request."""
    chat_template: str | None = None
    """Chat template (Jinja). By default the model's."""
    max_queued_requests: int = 128
    """Maximum number of waiting requests; further ones are refused."""
    max_queued_tokens: int = 1 << 20
    """Maximum number of prompt tokens of waiting requests; a request beyond it is refused, unless it is the
    only one."""
    max_stall_ms: int = 150
    """How long prompt processing may hold up running streams, in milliseconds."""
    idle_step_ms: int = 500
    """How long a step may take that computes a single prompt while no stream is running, in milliseconds."""
    prefix_cache: bool = True
    """Keep the KV cells of finished sequences for requests that begin with the same tokens."""
    parking_bytes: int = 512 << 20
    """Host memory for the state of preempted and cached sequences, in bytes."""
