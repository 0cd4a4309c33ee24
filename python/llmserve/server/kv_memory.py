"""The size of a KV cache by a model's metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

# Bytes per value: those of a block of 32 values, divided by 32 (ggml-common.h).
_BYTES: Mapping[str, float] = {
    "f32": 4,
    "f16": 2,
    "bf16": 2,
    "q8_0": 34 / 32,
    "q5_1": 24 / 32,
    "q5_0": 22 / 32,
    "q4_1": 20 / 32,
    "q4_0": 18 / 32,
    "iq4_nl": 18 / 32,
}

# Architectures, and keys of metadata, whose state does not grow with the text in each layer.
_OTHER_ARCHITECTURES = frozenset({"rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7", "minimax-01", "deepseek4"})
_OTHER_KEYS = (
    "ssm.conv_kernel",
    "ssm.state_size",
    "shortconv.l_cache",
    "kda.head_dim",
    "full_attention_interval",
    "attention.kv_lora_rank",
    "wkv.head_size",
)


def grows_per_token(architecture: str, metadata: Mapping[str, object]) -> bool:
    """Whether `cell_bytes` applies: not to recurrent and hybrid models, nor to compressed caches."""
    return architecture not in _OTHER_ARCHITECTURES and not any(
        f"{architecture}.{key}" in metadata for key in _OTHER_KEYS
    )


def cell_bytes(
    architecture: str, metadata: Mapping[str, object], type_k: str = "f16", type_v: str = "f16"
) -> float | None:
    """Bytes that one token takes in all layers, or ``None`` if the metadata do not say.

    Numbers may be given as text. Layers with a sliding window count as if they kept all tokens.
    """

    def number(key: str) -> int | None:
        return _integer(metadata.get(f"{architecture}.{key}"))

    def per_layer(key: str, layers: int) -> list[int] | None:
        value = metadata.get(f"{architecture}.{key}")
        if isinstance(value, Sequence) and not isinstance(value, str):
            return [_integer(item) or 0 for item in value]
        return None if (of_all := _integer(value)) is None else [of_all] * layers

    layers = number("block_count")
    heads = per_layer("attention.head_count", layers) if layers else None
    if not layers or not heads or not heads[0]:
        return None
    num_kv_heads = sum(per_layer("attention.head_count_kv", layers) or heads)
    default = (number("embedding_length") or 0) // heads[0]
    row = (number("attention.key_length") or default) * _BYTES.get(type_k, 2)
    row += (number("attention.value_length") or default) * _BYTES.get(type_v, 2)
    return num_kv_heads * row


def _integer(value: object) -> int | None:
    if isinstance(value, str):
        return int(value) if value.isdigit() else None
    return value if isinstance(value, int) else None
