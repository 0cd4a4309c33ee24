//! Whether a model has a head of its own that drafts (multi-token prediction, MTP).

use super::metadata::Metadata;

/// Architectures for which llama.cpp builds the graph of an MTP head. Others know the tensors and do not use
/// them.
const ARCHITECTURES: [&str; 13] = [
    "bailingmoe3",
    "cohere2moe",
    "deepseek2",
    "deepseek32",
    "glm-dsa",
    "glm4moe",
    "hy_v3",
    "mimo2",
    "nemotron_h_moe",
    "qwen35",
    "qwen35moe",
    "qwen3next",
    "step35",
];

/// The tensor that a model has if it has a head that can be used: the projection of its first MTP block.
/// Metadata may name the blocks of a model whose file leaves them out.
pub(super) fn tensor_name(metadata: &Metadata) -> Option<String> {
    let number = |suffix: &str| metadata.u32(&metadata.model_key(suffix));
    if !ARCHITECTURES.contains(&metadata.architecture()?) {
        return None;
    }
    let num_heads = number("nextn_predict_layers").filter(|&num| num > 0)?;
    let block = number("block_count")?.checked_sub(num_heads)?;
    Some(format!("blk.{block}.nextn.eh_proj.weight"))
}

#[cfg(test)]
mod tests {
    use super::super::metadata::Value;
    use super::*;

    fn metadata(architecture: &str, num_heads: u32) -> Metadata {
        let mut metadata = Metadata::default();
        metadata.insert("general.architecture".to_owned(), Value::Str(architecture.as_bytes().to_vec()));
        metadata.insert(format!("{architecture}.block_count"), Value::U32(5));
        metadata.insert(format!("{architecture}.nextn_predict_layers"), Value::U32(num_heads));
        metadata
    }

    #[test]
    fn the_first_head_follows_the_trunk() {
        assert_eq!(tensor_name(&metadata("hy_v3", 1)).as_deref(), Some("blk.4.nextn.eh_proj.weight"));
        assert_eq!(tensor_name(&metadata("step35", 3)).as_deref(), Some("blk.2.nextn.eh_proj.weight"));
    }

    #[test]
    fn no_head_is_none() {
        assert_eq!(tensor_name(&metadata("hy_v3", 0)), None);
        assert_eq!(tensor_name(&metadata("hy_v3", 6)), None);
        assert_eq!(tensor_name(&metadata("glm4", 1)), None);
        assert_eq!(tensor_name(&Metadata::default()), None);
    }
}
