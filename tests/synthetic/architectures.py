"""What each kind of model consists of: its metadata and its tensors, as llama.cpp's loaders ask for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, get_args

import gguf
import numpy as np

from .vocabulary import VOCABULARY
from .weights import Array, Weights

Kind = Literal["llama", "swa", "recurrent", "hybrid"]
KINDS: tuple[Kind, ...] = get_args(Kind)

WIDTH = 64
HEAD_SIZE = 32
NUM_HEADS = 2
NUM_KV_HEADS = 1
FEED_FORWARD = 96
NUM_LAYERS = 3
TRAINED_CONTEXT = 4096
WINDOW = 32
CONV_KERNEL = 4
STATE_SIZE = 8
TIME_STEP_RANK = 4
INNER = 2 * WIDTH  # the only expansion that llama.cpp's Mamba takes
# Sizes of what a matrix gives for inputs of size 1. Smaller ones end in a few repeated tokens.
LOGIT_GAIN = 8.0
SCORE_GAIN = 2.0
VALUE_GAIN = 2.0
FEED_FORWARD_GAIN = 1.0


@dataclass(frozen=True)
class Model:
    """A model ready to be written: llama.cpp's architecture name, hyperparameters and tensors."""

    architecture: str
    describe: Callable[[gguf.GGUFWriter], None]
    tensors: dict[str, Array] = field(default_factory=dict)


def build(kind: Kind) -> Model:
    """The model of `kind`; always the same."""
    return _BUILDERS[kind]()


def _embeddings(weights: Weights) -> dict[str, Array]:
    # Tokens that are not live keep a logit of 0, far below the best of the live ones.
    output = np.zeros((len(VOCABULARY), WIDTH), dtype=np.float32)
    output[list(VOCABULARY.live)] = weights.linear(len(VOCABULARY.live), WIDTH, LOGIT_GAIN)
    return {
        "token_embd.weight": weights.uniform(len(VOCABULARY), WIDTH),
        "output_norm.weight": weights.ones(WIDTH),
        "output.weight": output,
    }


def _attention(weights: Weights, block: str) -> dict[str, Array]:
    # Scores of size 4 make attention sharp: a plain average over a long prompt would hide a changed token.
    return {
        f"{block}.attn_norm.weight": weights.ones(WIDTH),
        f"{block}.attn_q.weight": weights.linear(NUM_HEADS * HEAD_SIZE, WIDTH, SCORE_GAIN),
        f"{block}.attn_k.weight": weights.linear(NUM_KV_HEADS * HEAD_SIZE, WIDTH, SCORE_GAIN),
        f"{block}.attn_v.weight": weights.linear(NUM_KV_HEADS * HEAD_SIZE, WIDTH, VALUE_GAIN),
        f"{block}.attn_output.weight": weights.linear(WIDTH, NUM_HEADS * HEAD_SIZE, VALUE_GAIN),
    }


def _feed_forward(weights: Weights, block: str) -> dict[str, Array]:
    return {
        f"{block}.ffn_norm.weight": weights.ones(WIDTH),
        f"{block}.ffn_gate.weight": weights.linear(FEED_FORWARD, WIDTH, 2.0 * FEED_FORWARD_GAIN),
        f"{block}.ffn_up.weight": weights.linear(FEED_FORWARD, WIDTH, 1.0),
        f"{block}.ffn_down.weight": weights.linear(WIDTH, FEED_FORWARD, 1.0),
    }


def _mamba(weights: Weights, block: str, *, norms: bool) -> dict[str, Array]:
    # Decay rates 1, 1/2, ... 1/128: with time steps near 0.1 the slow ones remember over a thousand tokens.
    rates = np.array([-(0.5**power) for power in range(STATE_SIZE)], dtype=np.float32)
    tensors = {
        f"{block}.attn_norm.weight": weights.ones(WIDTH),
        f"{block}.ssm_in.weight": weights.linear(2 * INNER, WIDTH, 2.0),
        f"{block}.ssm_conv1d.weight": weights.linear(INNER, CONV_KERNEL, 1.0),
        f"{block}.ssm_conv1d.bias": weights.uniform(INNER, std=0.1),
        f"{block}.ssm_x.weight": weights.linear(TIME_STEP_RANK + 2 * STATE_SIZE, INNER, 1.0),
        f"{block}.ssm_dt.weight": weights.linear(INNER, TIME_STEP_RANK, 1.0),
        f"{block}.ssm_dt.bias": weights.uniform(INNER, std=0.5) - np.float32(2.0),
        f"{block}.ssm_a": np.tile(rates, (INNER, 1)),
        f"{block}.ssm_d": weights.uniform(INNER, std=0.5),
        f"{block}.ssm_out.weight": weights.linear(WIDTH, INNER, 2.0),
    }
    if norms:
        tensors[f"{block}.ssm_dt_norm.weight"] = weights.ones(TIME_STEP_RANK)
        tensors[f"{block}.ssm_b_norm.weight"] = weights.ones(STATE_SIZE)
        tensors[f"{block}.ssm_c_norm.weight"] = weights.ones(STATE_SIZE)
    return tensors


def _describe_common(writer: gguf.GGUFWriter, num_layers: int, feed_forward: int) -> None:
    writer.add_block_count(num_layers)
    writer.add_context_length(TRAINED_CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(feed_forward)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(VOCABULARY))


def _describe_heads(writer: gguf.GGUFWriter, kv_heads: int | list[int]) -> None:
    writer.add_head_count(NUM_HEADS)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(HEAD_SIZE)
    writer.add_value_length(HEAD_SIZE)


def _describe_mamba(writer: gguf.GGUFWriter) -> None:
    writer.add_ssm_conv_kernel(CONV_KERNEL)
    writer.add_ssm_inner_size(INNER)
    writer.add_ssm_state_size(STATE_SIZE)
    writer.add_ssm_time_step_rank(TIME_STEP_RANK)


def _llama() -> Model:
    weights = Weights(1)
    tensors = _embeddings(weights)
    for layer in range(NUM_LAYERS):
        tensors |= _attention(weights, f"blk.{layer}") | _feed_forward(weights, f"blk.{layer}")

    def describe(writer: gguf.GGUFWriter) -> None:
        _describe_common(writer, NUM_LAYERS, FEED_FORWARD)
        _describe_heads(writer, NUM_KV_HEADS)
        writer.add_rope_dimension_count(HEAD_SIZE)
        writer.add_rope_freq_base(10_000.0)

    return Model("llama", describe, tensors)


def _swa() -> Model:
    """Gemma 3: windows of `WINDOW` tokens in layers 0 and 2, full attention in layers 1 and 3."""
    weights = Weights(2)
    num_layers = 4
    tensors = _embeddings(weights)
    for layer in range(num_layers):
        block = f"blk.{layer}"
        tensors |= _attention(weights, block) | _feed_forward(weights, block)
        # Queries and keys are normalised here, so these weights set how sharp attention is.
        tensors[f"{block}.attn_q_norm.weight"] = 2.0 * weights.ones(HEAD_SIZE)
        tensors[f"{block}.attn_k_norm.weight"] = 2.0 * weights.ones(HEAD_SIZE)
        # The token embedding comes in times sqrt(width): attention must add as much to be heard. The feed
        # forward part stays small, since llama.cpp's GELU rounds to 16 bits.
        tensors[f"{block}.post_attention_norm.weight"] = 14.0 * weights.ones(WIDTH)
        tensors[f"{block}.post_ffw_norm.weight"] = 4.0 * weights.ones(WIDTH)

    def describe(writer: gguf.GGUFWriter) -> None:
        _describe_common(writer, num_layers, FEED_FORWARD)
        _describe_heads(writer, NUM_KV_HEADS)
        writer.add_sliding_window(WINDOW)
        writer.add_sliding_window_pattern([True, False] * (num_layers // 2))
        writer.add_rope_dimension_count(HEAD_SIZE)
        writer.add_rope_freq_base(10_000.0)

    return Model("gemma3", describe, tensors)


def _recurrent() -> Model:
    """Mamba, with the norms of Falcon Mamba."""
    weights = Weights(3)
    tensors = _embeddings(weights)
    for layer in range(2):
        tensors |= _mamba(weights, f"blk.{layer}", norms=False)

    def describe(writer: gguf.GGUFWriter) -> None:
        _describe_common(writer, 2, 0)
        writer.add_head_count(0)
        _describe_mamba(writer)
        writer.add_ssm_dt_b_c_rms(True)

    return Model("mamba", describe, tensors)


def _hybrid() -> Model:
    """Jamba without experts: Mamba in layers 0 and 2, attention in layer 1."""
    weights = Weights(4)
    tensors = _embeddings(weights)
    for layer in range(NUM_LAYERS):
        block = f"blk.{layer}"
        tensors |= _attention(weights, block) if layer == 1 else _mamba(weights, block, norms=True)
        tensors |= _feed_forward(weights, block)

    def describe(writer: gguf.GGUFWriter) -> None:
        _describe_common(writer, NUM_LAYERS, FEED_FORWARD)
        _describe_heads(writer, [0, NUM_KV_HEADS, 0])
        _describe_mamba(writer)

    return Model("jamba", describe, tensors)


_BUILDERS: dict[Kind, Callable[[], Model]] = {
    "llama": _llama,
    "swa": _swa,
    "recurrent": _recurrent,
    "hybrid": _hybrid,
}
