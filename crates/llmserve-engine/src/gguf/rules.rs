//! Rules for values that llama.cpp accepts unchecked and cannot work with.
//!
//! Most contradictions end the probe, so they are not repeated here. These show only once it computes,
//! which no probe does, or never show at all.

use super::metadata::{Metadata, Value};
use super::{damaged, quoted};
use crate::error::LoadError;

const TOKENS: &str = "tokenizer.ggml.tokens";

/// Checks the metadata, to which overrides may have been applied.
pub(super) fn check(metadata: &Metadata) -> Result<(), LoadError> {
    check_length(metadata)?;
    check_epsilons(metadata)?;
    check_rotation(metadata, "")?;
    check_rotation(metadata, "_swa")?;
    check_special_tokens(metadata)
}

/// llama.cpp takes 0, and positions beyond an i32 turn negative.
fn check_length(metadata: &Metadata) -> Result<(), LoadError> {
    let key = metadata.model_key("context_length");
    match metadata.integer(&key) {
        Some(length) if !(1..=i64::from(i32::MAX)).contains(&length) => {
            Err(damaged(format!("{} is {length}, but must be 1 to {}", quoted(&key), i32::MAX)))
        }
        Some(_) | None => Ok(()),
    }
}

/// The normalization operators assert, with the first token, that their epsilon is at least 0.
fn check_epsilons(metadata: &Metadata) -> Result<(), LoadError> {
    for name in ["layer_norm_epsilon", "layer_norm_rms_epsilon", "group_norm_epsilon"] {
        let key = metadata.model_key(&format!("attention.{name}"));
        match metadata.get(&key) {
            Some(Value::F32(epsilon)) if !(0.0..1.0).contains(epsilon) => {
                return Err(damaged(format!("{} is {epsilon}, but must be 0 to 1", quoted(&key))));
            }
            Some(_) | None => {}
        }
    }
    Ok(())
}

/// The rotation works on pairs of a head's values, and asserts that with the first token.
fn check_rotation(metadata: &Metadata, windowed: &str) -> Result<(), LoadError> {
    let number = |suffix: &str| metadata.integer(&metadata.model_key(suffix));
    let key = metadata.model_key(&format!("rope.dimension_count{windowed}"));
    let Some(rotated) = metadata.integer(&key) else {
        return Ok(());
    };
    if rotated % 2 != 0 {
        return Err(damaged(format!("{} is {rotated}, but must be even", quoted(&key))));
    }
    let default_size = || number("embedding_length")?.checked_div(number("attention.head_count")?);
    let size = number(&format!("attention.key_length{windowed}"))
        .or_else(|| number("attention.key_length"))
        .or_else(default_size);
    match size {
        Some(size) if rotated > size => {
            Err(damaged(format!("{} is {rotated}, but heads have {size} values", quoted(&key))))
        }
        Some(_) | None => Ok(()),
    }
}

/// llama.cpp replaces an invalid id by a default: texts would begin or end with a wrong token.
/// Converters write -1 for none.
fn check_special_tokens(metadata: &Metadata) -> Result<(), LoadError> {
    let Some(tokens) = metadata.array(TOKENS) else {
        return Ok(());
    };
    for key in ["tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id"] {
        match metadata.u32(key) {
            Some(id) if id != u32::MAX && u64::from(id) >= tokens.length => {
                let count = tokens.length;
                return Err(damaged(format!(
                    "{} is {id}, but the vocabulary has {count} tokens",
                    quoted(key)
                )));
            }
            Some(_) | None => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::metadata::{Array, Items, ValueType};
    use super::*;

    fn model(changes: &[(&str, Value)]) -> Result<(), LoadError> {
        let mut metadata = Metadata::default();
        let text = |value: &str| Value::Str(value.as_bytes().to_vec());
        let tokens = Array { element: ValueType::Str, length: 3, items: Items::Skipped };
        for (key, value) in [
            ("general.architecture", text("llama")),
            ("llama.context_length", Value::U32(128)),
            ("llama.embedding_length", Value::U32(64)),
            ("llama.attention.head_count", Value::U32(4)),
            (TOKENS, Value::Array(tokens)),
        ]
        .iter()
        .chain(changes)
        {
            metadata.insert((*key).to_owned(), value.clone());
        }
        check(&metadata)
    }

    #[test]
    fn sound_models_pass() {
        assert_eq!(model(&[]), Ok(()));
        assert_eq!(model(&[("tokenizer.ggml.bos_token_id", Value::U32(u32::MAX))]), Ok(()));
        assert_eq!(model(&[("llama.rope.dimension_count", Value::U32(16))]), Ok(()));
    }

    #[test]
    fn what_no_probe_sees_is_damage() {
        for (key, value) in [
            ("llama.context_length", Value::U32(0)),
            ("llama.context_length", Value::I64(-1)),
            ("llama.context_length", Value::U32(u32::MAX)),
            ("llama.rope.dimension_count", Value::U32(15)),
            ("llama.rope.dimension_count", Value::U32(18)),
            ("llama.rope.dimension_count_swa", Value::U32(18)),
            ("llama.attention.layer_norm_rms_epsilon", Value::F32(-1.0)),
            ("llama.attention.layer_norm_epsilon", Value::F32(f32::NAN)),
            ("tokenizer.ggml.eos_token_id", Value::U32(3)),
        ] {
            assert!(model(&[(key, value.clone())]).is_err(), "{key} {value:?}");
        }
    }
}
