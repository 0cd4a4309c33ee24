"""A model with recurrent layers and a draft head: `qwen35`, of the same parts as `draft_head`.

Its first layer is a gated delta net (Yang et al. 2024) that is used as a memory: keys are the places, the old
value of a place is replaced as a whole, nothing decays. What is written comes from the position before,
through the layer's convolution. So the next token depends on both recurrent states.
"""

from __future__ import annotations

import gguf

from .architectures import Model
from .draft_head import (
    BITS,
    EMBEDDED,
    EPSILON,
    KEYS,
    NUM_HEADS,
    ONE,
    TRAINED_CONTEXT,
    attention,
    embeddings,
    head_block,
    level,
    zeros,
)
from .draft_rules import DISTANCES, HEAD_SIZE, ROPE_BASE, Rules, rules
from .vocabulary import VOCABULARY
from .weights import Array, Weights

WIDTH = 320
FEED_FORWARD = 64
NUM_LAYERS = 2  # a recurrent one, then attention
CONV_KERNEL = 4
STATE_SIZE = 32
SURE = 30.0  # whose sigmoid is 1 in 32 bits
SILU_OF_ONE = 0.7310585786300049


def build_hybrid_draft_model(agreement: float) -> Model:
    """A model whose head is right after half of the share `agreement` of all tokens; always the same."""
    language = rules(agreement, remembers=True)
    memory, look_back, head = (f"blk.{layer}" for layer in range(NUM_LAYERS + 1))
    sources = [*range(KEYS, KEYS + 3), None]
    # The memory's bit has been added when the second layer looks back.
    attended = attention(look_back, WIDTH, EMBEDDED + 1, DISTANCES, sources)
    tensors = embeddings(language, WIDTH) | _memory(language, memory)
    tensors |= _gated(attended, look_back) | _gated(head_block(language, head, WIDTH), head)
    for block in (memory, look_back, head):
        tensors |= _feed_forward(block)
    return Model("qwen35", _describe, tensors)


def _describe(writer: gguf.GGUFWriter) -> None:
    writer.add_block_count(NUM_LAYERS + 1)
    writer.add_nextn_predict_layers(1)
    writer.add_context_length(TRAINED_CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_vocab_size(len(VOCABULARY))
    writer.add_head_count(NUM_HEADS)
    writer.add_head_count_kv(1)
    writer.add_key_length(HEAD_SIZE)
    writer.add_value_length(HEAD_SIZE)
    writer.add_rope_dimension_count(HEAD_SIZE)
    # For text, all sections have the same position.
    writer.add_rope_dimension_sections([11, 11, 10, 0])
    writer.add_rope_freq_base(ROPE_BASE)
    writer.add_uint32("qwen35.full_attention_interval", NUM_LAYERS)
    writer.add_ssm_conv_kernel(CONV_KERNEL)
    writer.add_ssm_inner_size(STATE_SIZE)
    writer.add_ssm_state_size(STATE_SIZE)
    writer.add_ssm_time_step_rank(1)
    writer.add_ssm_group_count(1)


def _memory(language: Rules, block: str) -> dict[str, Array]:
    query, key, value = 0, STATE_SIZE, 2 * STATE_SIZE
    mixed = zeros(3 * STATE_SIZE, WIDTH)
    for token in range(len(VOCABULARY)):
        mixed[query + language.place_read(token), token] = 1.0
        mixed[key + language.place(token), token] = 1.0
        mixed[value + (language.keys[token][3] < 0), token] = 1.0
    convolution = zeros(3 * STATE_SIZE, CONV_KERNEL)
    convolution[:value, -1] = 1.0
    convolution[value:, -2] = 1.0
    write, gate, output = zeros(1, WIDTH), zeros(STATE_SIZE, WIDTH), zeros(WIDTH, STATE_SIZE)
    write[0, ONE] = SURE
    gate[:, ONE] = 1.0
    output[BITS + 3, :2] = [1 / SILU_OF_ONE, -1 / SILU_OF_ONE]
    return {
        f"{block}.attn_norm.weight": level(WIDTH, EMBEDDED),
        f"{block}.attn_qkv.weight": mixed,
        f"{block}.attn_gate.weight": gate,
        f"{block}.ssm_conv1d.weight": convolution,
        f"{block}.ssm_dt.bias": zeros(1),
        f"{block}.ssm_a": zeros(1),
        f"{block}.ssm_alpha.weight": zeros(1, WIDTH),
        f"{block}.ssm_beta.weight": write,
        f"{block}.ssm_norm.weight": level(STATE_SIZE, 1),
        f"{block}.ssm_out.weight": output,
    }


def _gated(tensors: dict[str, Array], block: str) -> dict[str, Array]:
    """Attention as this architecture has it: a gate, which is open here, follows each head's query."""
    name = f"{block}.attn_q.weight"
    query = zeros(NUM_HEADS, 2, HEAD_SIZE, WIDTH)
    query[:, 0] = tensors[name].reshape(NUM_HEADS, HEAD_SIZE, WIDTH)
    query[:, 1, :, ONE] = SURE
    return tensors | {name: query.reshape(-1, WIDTH)}


def _feed_forward(block: str) -> dict[str, Array]:
    weights = Weights(7)
    return {
        f"{block}.post_attention_norm.weight": weights.ones(WIDTH),
        f"{block}.ffn_gate.weight": weights.linear(FEED_FORWARD, WIDTH),
        f"{block}.ffn_up.weight": weights.linear(FEED_FORWARD, WIDTH),
        f"{block}.ffn_down.weight": zeros(WIDTH, FEED_FORWARD),
    }
