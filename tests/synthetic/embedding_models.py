"""Tiny embedding models: a BERT with mean and with CLS pooling, and a decoder that takes the last token.

Two rank documents: the BERT, and a Qwen 3 with a template of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import gguf

from . import vocabulary
from .architectures import HEAD_SIZE, Model, build
from .architectures import NUM_LAYERS as LLAMA_LAYERS
from .architectures import WIDTH as LLAMA_WIDTH
from .weights import Array, Weights

WIDTH = 32
NUM_HEADS = 2
NUM_LAYERS = 2
FEED_FORWARD = 64
EPSILON = 1e-12
CONTEXT = 96
"""Tokens for which the BERT has positions."""

PAD, UNKNOWN, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_WORDS = ("the", "sea", "tree", "of", "and", "is", "in", "deep", "green", "cafe")
_ENDINGS = ("s", "ing", "er", "ly")
_PUNCTUATION = ".,;:!?-'\"()"

# WordPiece tokens as llama.cpp has them: beginnings of words with its space mark, pieces inside without.
SPECIAL = (PAD, UNKNOWN, CLS, SEP, MASK)
BEGINNINGS = tuple(f"▁{text}" for text in (*_WORDS, *_LETTERS, *_PUNCTUATION))
INSIDE = tuple(dict.fromkeys((*_ENDINGS, *_LETTERS)))
TOKENS = (*SPECIAL, *BEGINNINGS, *INSIDE)


def bert_tensors() -> dict[str, Array]:
    """The weights of the BERT; always the same."""
    weights = Weights(11)
    tensors = {
        "token_embd.weight": weights.uniform(len(TOKENS), WIDTH),
        "token_types.weight": weights.uniform(2, WIDTH, std=0.3),
        "position_embd.weight": weights.uniform(CONTEXT, WIDTH, std=0.5),
        **_norm(weights, "token_embd_norm"),
    }
    for layer in range(NUM_LAYERS):
        block = f"blk.{layer}"
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            tensors |= _linear(weights, f"{block}.{name}", WIDTH, WIDTH)
        tensors |= _norm(weights, f"{block}.attn_output_norm")
        tensors |= _linear(weights, f"{block}.ffn_up", FEED_FORWARD, WIDTH)
        tensors |= _linear(weights, f"{block}.ffn_down", WIDTH, FEED_FORWARD)
        tensors |= _norm(weights, f"{block}.layer_output_norm")
    return tensors


def _linear(weights: Weights, name: str, rows: int, columns: int) -> dict[str, Array]:
    return {
        f"{name}.weight": weights.linear(rows, columns, 1.5),
        f"{name}.bias": weights.uniform(rows, std=0.2),
    }


def _norm(weights: Weights, name: str) -> dict[str, Array]:
    return {
        f"{name}.weight": weights.ones(WIDTH) + weights.uniform(WIDTH, std=0.2),
        f"{name}.bias": weights.uniform(WIDTH, std=0.2),
    }


def rank_tensors() -> dict[str, Array]:
    """The head by which the BERT ranks."""
    weights = Weights(12)
    return {
        **_linear(weights, "cls", WIDTH, WIDTH),
        **_linear(weights, "cls.output", 1, WIDTH),
    }


def _begin_bert(pooling: gguf.PoolingType) -> Callable[[Path], gguf.GGUFWriter]:
    def begin(path: Path) -> gguf.GGUFWriter:
        writer = gguf.GGUFWriter(path, "bert")
        writer.add_name("synthetic bert")
        writer.add_file_type(gguf.LlamaFileType.ALL_F32)
        writer.add_block_count(NUM_LAYERS)
        writer.add_context_length(CONTEXT)
        writer.add_embedding_length(WIDTH)
        writer.add_feed_forward_length(FEED_FORWARD)
        writer.add_head_count(NUM_HEADS)
        writer.add_layer_norm_eps(EPSILON)
        writer.add_causal_attention(False)
        writer.add_pooling_type(pooling)
        writer.add_vocab_size(len(TOKENS))
        _describe_word_pieces(writer)
        head = rank_tensors() if pooling == gguf.PoolingType.RANK else {}
        for name, tensor in (bert_tensors() | head).items():
            writer.add_tensor(name, tensor)
        return writer

    return begin


def _describe_word_pieces(writer: gguf.GGUFWriter) -> None:
    types = [gguf.TokenType.CONTROL] * len(SPECIAL)
    types += [gguf.TokenType.NORMAL] * (len(TOKENS) - len(SPECIAL))
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(list(TOKENS))
    writer.add_token_types(list(map(int, types)))
    writer.add_token_type_count(2)
    writer.add_bos_token_id(TOKENS.index(CLS))
    writer.add_unk_token_id(TOKENS.index(UNKNOWN))
    writer.add_sep_token_id(TOKENS.index(SEP))
    writer.add_pad_token_id(TOKENS.index(PAD))
    writer.add_mask_token_id(TOKENS.index(MASK))


def _begin_last(path: Path) -> gguf.GGUFWriter:
    """The `llama` model, which then gives the hidden state of the last token: its logits without the output
    matrix."""
    model: Model = build("llama")
    writer = gguf.GGUFWriter(path, model.architecture)
    writer.add_name("synthetic llama for embeddings")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    model.describe(writer)
    writer.add_pooling_type(gguf.PoolingType.LAST)
    vocabulary.describe(writer)
    for name, tensor in model.tensors.items():
        writer.add_tensor(name, tensor)
    return writer


RERANK_TEMPLATE = "<|im_start|>Is it so?\nQuery: {query}\nDocument: {document}<|im_end|>\n<|im_start|>"
"""Text around a pair, as Qwen3-Reranker has it."""


def _begin_template(path: Path) -> gguf.GGUFWriter:
    """The `llama` model with the norms of Qwen 3, which says yes or no to a pair."""
    model: Model = build("llama")
    weights = Weights(13)
    writer = gguf.GGUFWriter(path, "qwen3")
    writer.add_name("synthetic qwen3 for ranking")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    model.describe(writer)
    writer.add_pooling_type(gguf.PoolingType.RANK)
    writer.add_classifier_output_labels(["yes", "no"])
    writer.add_string("tokenizer.chat_template.rerank", RERANK_TEMPLATE)
    vocabulary.describe(writer)
    norms = {
        f"blk.{layer}.attn_{part}_norm.weight": weights.ones(HEAD_SIZE)
        for layer in range(LLAMA_LAYERS)
        for part in "qk"
    }
    head = {"cls.output.weight": weights.linear(2, LLAMA_WIDTH, 1.0)}
    for name, tensor in (model.tensors | norms | head).items():
        writer.add_tensor(name, tensor)
    return writer


EMBEDDING_FILES: Mapping[str, Callable[[Path], gguf.GGUFWriter]] = MappingProxyType(
    {
        "bert-mean.gguf": _begin_bert(gguf.PoolingType.MEAN),
        "bert-cls.gguf": _begin_bert(gguf.PoolingType.CLS),
        "embed-last.gguf": _begin_last,
        "rank-bert.gguf": _begin_bert(gguf.PoolingType.RANK),
        "rank-template.gguf": _begin_template,
    }
)
"""File names, and what begins to write each: all but flushing is done."""
