"""Models with a draft head (multi-token prediction) whose agreement with the model is known, by construction.

They are `hy_v3` (Hunyuan 3) without experts. The residual stream holds the token as one of `len(VOCABULARY)`
directions, and what `draft_rules` knows about it in a few more. One layer looks back through RoPE; the others
have random weights and outputs of zero: they take their time and change nothing. The head is built alike, of
its own cache and the hidden row handed over. `draft_simulator` knows what comes out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import gguf
import numpy as np

from .architectures import Model
from .draft_rules import (
    BIT_LOGIT,
    DEAD_LOGIT,
    DISTANCES,
    HEAD_SIZE,
    NUM_BITS,
    RANK_LOGIT,
    ROPE_BASE,
    SUCCESSOR_LOGIT,
    Rules,
    rope_frequencies,
    rules,
)
from .vocabulary import VOCABULARY
from .weights import Array, Weights

NUM_HEADS = NUM_BITS
TRAINED_CONTEXT = 4096
EPSILON = 1e-6
# The best cell's score; the next one's is lower by 6 % of it at least, so it gets e**-30 of the weight.
SHARPNESS = 512.0

# Directions after the tokens'. `ONE` is always 1, and `LEVEL` is such that the squares of all of them sum up
# to `HIDDEN` after attention, in the model as in its head.
ONE = len(VOCABULARY)
LEVEL = ONE + 1
KEYS = LEVEL + 1
BITS = KEYS + NUM_BITS
PREVIOUS_1 = BITS + NUM_BITS  # bits 1 and 3 of the hidden row that a cell of the head holds
PREVIOUS_3 = PREVIOUS_1 + 1
NUM_DIRECTIONS = PREVIOUS_3 + 1
LEVEL_SQUARED = 2
EMBEDDED = 2 + LEVEL_SQUARED + NUM_BITS  # the sum for a token's embedding
JOINED = 2 + NUM_BITS + 3  # the sum for the input of the head's attention
HIDDEN = EMBEDDED + NUM_BITS


@dataclass(frozen=True)
class Shape:
    """How large a model is."""

    num_layers: int = 3
    width: int = 320
    feed_forward: int = 64

    def __post_init__(self) -> None:
        if self.width < NUM_DIRECTIONS:
            message = f"a width of {self.width} is less than {NUM_DIRECTIONS}"
            raise ValueError(message)


# About 300 million parameters: large enough that a step of one row takes as long as reading the weights.
MEMORY_BOUND = Shape(num_layers=24, width=1024, feed_forward=4096)

Head = Literal["whole", "missing"]
"""Whether the tensors of the head are there; the metadata always announces them."""


def build_draft_model(agreement: float, shape: Shape | None = None, head: Head = "whole") -> Model:
    """A model whose head is right after the share `agreement` of all tokens; always the same.

    The language depends on `agreement` in this only.
    """
    shape = shape or Shape()
    language = rules(agreement)
    tensors = embeddings(language, shape.width)
    idle = _idle_layer(shape)
    for layer in range(shape.num_layers + (head == "whole")):
        tensors |= {f"blk.{layer}.{name}": tensor for name, tensor in idle.items()}
    block = f"blk.{shape.num_layers // 2}"
    tensors |= attention(block, shape.width, EMBEDDED, DISTANCES, range(KEYS, BITS))
    if head == "whole":
        block = f"blk.{shape.num_layers}"
        tensors |= head_block(language, block, shape.width)

    def describe(writer: gguf.GGUFWriter) -> None:
        _describe(writer, shape)

    return Model("hy_v3", describe, tensors)


def _describe(writer: gguf.GGUFWriter, shape: Shape) -> None:
    writer.add_block_count(shape.num_layers + 1)
    writer.add_nextn_predict_layers(1)
    writer.add_context_length(TRAINED_CONTEXT)
    writer.add_embedding_length(shape.width)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_expert_feed_forward_length(shape.feed_forward)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_vocab_size(len(VOCABULARY))
    writer.add_head_count(NUM_HEADS)
    writer.add_head_count_kv(1)
    writer.add_key_length(HEAD_SIZE)
    writer.add_value_length(HEAD_SIZE)
    writer.add_rope_dimension_count(HEAD_SIZE)
    writer.add_rope_freq_base(ROPE_BASE)


def zeros(*shape: int) -> Array:
    """A matrix of zeros."""
    return np.zeros(shape, dtype=np.float32)


def level(width: int, squares: float) -> Array:
    """The weight of a norm that leaves rows as they are whose squares sum up to `squares`."""
    return np.full(width, math.sqrt(squares / width), dtype=np.float32)


def embeddings(language: Rules, width: int) -> dict[str, Array]:
    """The tensors before the first layer and after the last."""
    embedding = zeros(len(VOCABULARY), width)
    output = zeros(len(VOCABULARY), width)
    for token, key in enumerate(language.keys):
        embedding[token, [token, ONE]] = 1.0
        embedding[token, LEVEL] = math.sqrt(LEVEL_SQUARED)
        embedding[token, KEYS:BITS] = key
        output[list(language.successors[token]), token] = SUCCESSOR_LOGIT
        output[token, ONE] = RANK_LOGIT * token + (0.0 if token in language.labels else DEAD_LOGIT)
    for token, label in language.labels.items():
        output[token, BITS:PREVIOUS_1] = BIT_LOGIT * np.array(label, dtype=np.float32)
    return {
        "token_embd.weight": embedding,
        "output_norm.weight": level(width, HIDDEN),
        "output.weight": output,
    }


def _idle_layer(shape: Shape) -> dict[str, Array]:
    weights, width = Weights(6), shape.width
    return {
        "attn_norm.weight": weights.ones(width),
        "attn_q.weight": weights.linear(NUM_HEADS * HEAD_SIZE, width),
        "attn_k.weight": weights.linear(HEAD_SIZE, width),
        "attn_v.weight": weights.linear(HEAD_SIZE, width),
        "attn_output.weight": zeros(width, NUM_HEADS * HEAD_SIZE),
        "attn_q_norm.weight": weights.ones(HEAD_SIZE),
        "attn_k_norm.weight": weights.ones(HEAD_SIZE),
        "ffn_norm.weight": weights.ones(width),
        "ffn_gate.weight": weights.linear(shape.feed_forward, width),
        "ffn_up.weight": weights.linear(shape.feed_forward, width),
        "ffn_down.weight": zeros(width, shape.feed_forward),
    }


def attention(
    block: str, width: int, squares: float, distances: Sequence[int], sources: Sequence[int | None]
) -> dict[str, Array]:
    """Attention that gives each bit what the cell `distances[bit]` back has in direction `sources[bit]`."""
    pairs = HEAD_SIZE // 2
    query, key, value = (
        zeros(NUM_HEADS * HEAD_SIZE, width),
        zeros(HEAD_SIZE, width),
        zeros(HEAD_SIZE, width),
    )
    output = zeros(width, NUM_HEADS * HEAD_SIZE)
    key[:pairs, ONE] = 1.0
    for bit, (distance, source) in enumerate(zip(distances, sources, strict=True)):
        first = bit * HEAD_SIZE
        # RoPE turns each pair by its angle times the position; these are turned back by the distance.
        angles = [-distance * frequency for frequency in rope_frequencies()]
        query[first : first + pairs, ONE] = [math.cos(angle) for angle in angles]
        query[first + pairs : first + HEAD_SIZE, ONE] = [math.sin(angle) for angle in angles]
        if source is not None:
            value[bit, source] = 1.0
            output[BITS + bit, first + bit] = 1.0
    # A normalised head has squares that sum up to its size; llama.cpp divides scores by the root of it.
    gain = np.full(HEAD_SIZE, math.sqrt(SHARPNESS / math.sqrt(HEAD_SIZE)), dtype=np.float32)
    return {
        f"{block}.attn_norm.weight": level(width, squares),
        f"{block}.attn_q.weight": query,
        f"{block}.attn_k.weight": key,
        f"{block}.attn_v.weight": value,
        f"{block}.attn_output.weight": output,
        f"{block}.attn_q_norm.weight": gain,
        f"{block}.attn_k_norm.weight": gain,
    }


def head_block(language: Rules, block: str, width: int) -> dict[str, Array]:
    """What the head has in place of, and beside, the tensors of an idle layer."""
    join = zeros(width, 2 * width)  # inputs: the token's embedding, then the hidden row
    for token in range(len(VOCABULARY)):
        join[language.mistaken.get(token, token), token] = 1.0
    for direction in (ONE, *range(KEYS, BITS)):
        join[direction, direction] = 1.0
    join[BITS, width + KEYS] = 1.0
    join[PREVIOUS_1, width + KEYS + 1] = 1.0
    join[PREVIOUS_3, width + KEYS + 3] = 1.0
    # Bit 0 is there already. The hidden row of a cell is one position older than its token.
    distances = (0, DISTANCES[1] - 1, DISTANCES[2], DISTANCES[3] - 1)
    sources = (None, PREVIOUS_1, KEYS + 2, None if language.remembers else PREVIOUS_3)
    return attention(block, width, JOINED, distances, sources) | {
        f"{block}.nextn.eh_proj.weight": join,
        f"{block}.nextn.enorm.weight": level(width, EMBEDDED),
        f"{block}.nextn.hnorm.weight": level(width, HIDDEN),
        f"{block}.nextn.shared_head_norm.weight": level(width, HIDDEN),
    }
