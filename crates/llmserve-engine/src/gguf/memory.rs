//! The size of a model's KV cache, by its metadata.

use super::check::ModelFile;
use super::metadata::Metadata;
use crate::config::KvType;

/// llama.cpp's `LLAMA_MAX_LAYERS`.
const MOST_LAYERS: u64 = 512;

/// Architectures whose state does not grow with the text, or not in all layers (llama.cpp's
/// `llm_arch_is_recurrent` and `llm_arch_is_hybrid`), where no other key tells.
const NOT_PER_TOKEN: [&str; 6] = ["rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7", "minimax-01", "deepseek4"];

/// Keys of models whose layers are recurrent in part, or whose cache is a compressed state.
const OTHER_CACHES: [&str; 7] = [
    "ssm.conv_kernel",
    "ssm.state_size",
    "shortconv.l_cache",
    "kda.head_dim",
    "full_attention_interval",
    "attention.kv_lora_rank",
    "wkv.head_size",
];

/// Bytes of KV cache per token of a sequence: in each layer a row of KV heads x head size values, for
/// keys and for values.
///
/// `None` if that does not apply (recurrent and hybrid models, compressed caches), if the
/// metadata does not say, or if a row is not a whole number of the type's blocks. It is the most
/// that the model takes: layers with a sliding window keep fewer cells and some models share the
/// cache between layers.
#[must_use]
pub fn bytes_per_token(model: &ModelFile, type_k: KvType, type_v: KvType) -> Option<u64> {
    cell_bytes(&model.metadata, type_k, type_v)
}

fn cell_bytes(metadata: &Metadata, type_k: KvType, type_v: KvType) -> Option<u64> {
    let has = |suffix: &&str| metadata.contains(&metadata.model_key(suffix));
    if NOT_PER_TOKEN.contains(&metadata.architecture()?) || OTHER_CACHES.iter().any(has) {
        return None;
    }
    let layers = number(metadata, "block_count").filter(|layers| *layers <= MOST_LAYERS)? as usize;
    let heads = metadata.per_layer(&metadata.model_key("attention.head_count"), layers)?;
    let kv_key = metadata.model_key("attention.head_count_kv");
    let kv_heads =
        if metadata.contains(&kv_key) { metadata.per_layer(&kv_key, layers)? } else { heads.clone() };
    // llama.cpp takes the first layer's heads for the default size.
    let default_length = number(metadata, "embedding_length")?.checked_div(*heads.first()?);
    let length = |kind: &str| {
        let full = number(metadata, &format!("attention.{kind}_length")).or(default_length)?;
        let windowed = number(metadata, &format!("attention.{kind}_length_swa"));
        Some(full.max(windowed.unwrap_or(0)))
    };
    let key_bytes = rows_bytes(&kv_heads, length("key")?, type_k)?;
    key_bytes.checked_add(rows_bytes(&kv_heads, length("value")?, type_v)?)
}

fn number(metadata: &Metadata, suffix: &str) -> Option<u64> {
    u64::try_from(metadata.integer(&metadata.model_key(suffix))?).ok()
}

fn rows_bytes(kv_heads: &[u64], length: u64, kind: KvType) -> Option<u64> {
    let (block_values, block_bytes) = block(kind);
    // Each head is a whole number of blocks, or llama.cpp refuses the type.
    if !length.is_multiple_of(block_values) {
        return None;
    }
    let per_head = (length / block_values).checked_mul(block_bytes)?;
    kv_heads.iter().try_fold(0_u64, |sum, heads| sum.checked_add(heads.checked_mul(per_head)?))
}

/// Values and bytes of a block.
fn block(kind: KvType) -> (u64, u64) {
    match kind {
        KvType::F32 => (1, 4),
        KvType::F16 | KvType::BF16 => (1, 2),
        KvType::Q8_0 => (32, 34),
        KvType::Q5_1 => (32, 24),
        KvType::Q5_0 => (32, 22),
        KvType::Q4_1 => (32, 20),
        KvType::Q4_0 | KvType::IQ4_NL => (32, 18),
    }
}

#[cfg(test)]
mod tests {
    use super::super::metadata::{Array, Items, Value, ValueType};
    use super::*;

    /// The shape of `SmolLM2` 135M, with changes.
    fn smol(changes: &[(&str, Value)]) -> Metadata {
        let mut metadata = Metadata::default();
        metadata.insert("general.architecture".into(), Value::Str(b"llama".to_vec()));
        let shape = [
            ("block_count", 30),
            ("embedding_length", 576),
            ("attention.head_count", 9),
            ("attention.head_count_kv", 3),
        ];
        for (name, value) in shape {
            metadata.insert(format!("llama.{name}"), Value::U32(value));
        }
        for (name, value) in changes {
            metadata.insert(format!("llama.{name}"), value.clone());
        }
        metadata
    }

    #[test]
    fn a_token_takes_a_row_in_each_layer() {
        let bytes = cell_bytes(&smol(&[]), KvType::F16, KvType::Q8_0);
        assert_eq!(bytes, Some(30 * 3 * 64 * 2 + 30 * 3 * 2 * 34));
    }

    #[test]
    fn layers_may_differ_and_heads_have_their_own_size() {
        let items = Items::Integers(vec![0, 5]);
        let kv_heads = Value::Array(Array { element: ValueType::U32, length: 2, items });
        let metadata = smol(&[
            ("block_count", Value::U32(2)),
            ("attention.head_count_kv", kv_heads),
            ("attention.key_length", Value::U32(128)),
        ]);
        let bytes = cell_bytes(&metadata, KvType::F32, KvType::F32);
        assert_eq!(bytes, Some(5 * 128 * 4 + 5 * 64 * 4));
    }

    #[test]
    fn other_caches_are_not_guessed() {
        for (name, value) in [
            ("ssm.state_size", 16),
            ("attention.kv_lora_rank", 512),
            ("attention.head_count", 0),
            ("block_count", 100_000),
        ] {
            assert_eq!(cell_bytes(&smol(&[(name, Value::U32(value))]), KvType::F16, KvType::F16), None);
        }
        let odd = smol(&[("attention.key_length", Value::U32(48))]);
        assert_eq!(cell_bytes(&odd, KvType::Q4_0, KvType::F16), None);
    }
}
