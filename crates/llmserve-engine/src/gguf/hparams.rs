//! Checks the numbers that describe a model.
//!
//! llama.cpp asserts on many of them (`llama_model_base::load_hparams`, the attention and
//! normalization operators): what would end the process there is refused here. Values that it
//! refuses by itself, with an exception, are left to it unless their meaning is plain.

use super::metadata::{Metadata, Value};
use super::{damaged, quoted, unsupported};
use crate::error::LoadError;

/// llama.cpp's `LLAMA_MAX_LAYERS`.
pub(super) const MOST_LAYERS: u64 = 512;
/// llama.cpp's `LLAMA_MAX_EXPERTS`.
const MOST_EXPERTS: u64 = 1024;
const ROPE_SCALINGS: [&str; 4] = ["none", "linear", "yarn", "longrope"];
/// The largest number of llama.cpp's `llama_pooling_type`.
const LAST_POOLING: u64 = 4;

/// Checks the model's numbers. `has_attention` tells whether a tensor projects to attention heads.
pub(super) fn check(metadata: &Metadata, has_attention: bool) -> Result<(), LoadError> {
    let Some(_) = metadata.architecture() else {
        return Err(damaged("`general.architecture` is missing or no text"));
    };
    let numbers = Numbers { metadata };
    let layers = numbers.required("block_count", 1, MOST_LAYERS)?;
    numbers.required("context_length", 1, i32::MAX as u64)?;
    let embedding = numbers.required("embedding_length", 1, i32::MAX as u64)?;
    numbers.optional("nextn_predict_layers", 0, layers)?;
    numbers.optional("pooling_type", 0, LAST_POOLING)?;
    check_experts(&numbers, layers)?;
    let head_size = check_heads(&numbers, layers, embedding, has_attention)?;
    check_rope(&numbers, head_size)?;
    check_epsilons(&numbers)
}

struct Numbers<'a> {
    metadata: &'a Metadata,
}

impl Numbers<'_> {
    /// A u32 within limits; llama.cpp takes no other integer type.
    fn optional(&self, suffix: &str, least: u64, most: u64) -> Result<Option<u64>, LoadError> {
        let key = self.metadata.model_key(suffix);
        let value = match self.metadata.get(&key) {
            None => return Ok(None),
            Some(Value::U32(value)) => u64::from(*value),
            Some(other) => {
                return Err(damaged(format!("{} has type {}, it must be u32", quoted(&key), other.kind())));
            }
        };
        if !(least..=most).contains(&value) {
            return Err(damaged(format!("{} is {value}, it must be {least} to {most}", quoted(&key))));
        }
        Ok(Some(value))
    }

    fn required(&self, suffix: &str, least: u64, most: u64) -> Result<u64, LoadError> {
        self.optional(suffix, least, most)?
            .ok_or_else(|| damaged(format!("{} is missing", quoted(&self.metadata.model_key(suffix)))))
    }

    /// A number for each layer, from an array of that length or one number for all.
    fn per_layer(&self, suffix: &str, layers: u64) -> Result<Option<Vec<u64>>, LoadError> {
        let key = self.metadata.model_key(suffix);
        let Some(value) = self.metadata.get(&key) else {
            return Ok(None);
        };
        let numbers = self.metadata.per_layer(&key, layers as usize);
        match (value, numbers) {
            (Value::Array(array), _) if array.length != layers => Err(damaged(format!(
                "{} has {} numbers, one for each of {layers} layers is needed",
                quoted(&key),
                array.length
            ))),
            (Value::U32(_) | Value::Array(_), Some(numbers)) => Ok(Some(numbers)),
            (other, _) => {
                Err(damaged(format!("{} is no count for each layer (type {})", quoted(&key), other.kind())))
            }
        }
    }
}

fn check_experts(numbers: &Numbers, layers: u64) -> Result<(), LoadError> {
    let experts = numbers.optional("expert_count", 0, MOST_EXPERTS)?.unwrap_or(0);
    let used = numbers.per_layer("expert_used_count", layers)?;
    let used = used.into_iter().flatten().max().unwrap_or(0);
    let groups = numbers.optional("expert_group_count", 0, u32::MAX.into())?.unwrap_or(0);
    let used_groups = numbers.optional("expert_group_used_count", 0, u32::MAX.into())?.unwrap_or(0);
    if is_dense_by_rule(numbers, experts) {
        return Ok(());
    }
    if used > experts || (experts > 0 && used == 0) {
        return Err(damaged(format!("the model uses {used} of {experts} experts")));
    }
    let groups_fit = if experts == 0 {
        groups == 0
    } else {
        groups < experts && (groups <= 1 || (experts % groups == 0 && (1..groups).contains(&used_groups)))
    };
    if groups_fit {
        return Ok(());
    }
    Err(damaged(format!("the model uses {used_groups} of {groups} groups of {experts} experts")))
}

/// llama.cpp ignores a single expert of these architectures.
fn is_dense_by_rule(numbers: &Numbers, experts: u64) -> bool {
    let architecture = numbers.metadata.architecture().unwrap_or_default();
    experts <= 1 && matches!(architecture, "hunyuan-dense" | "hunyuan_vl")
}

/// Checks the attention heads; the number of values in one, where the model has heads.
fn check_heads(
    numbers: &Numbers,
    layers: u64,
    embedding: u64,
    has_attention: bool,
) -> Result<Option<u64>, LoadError> {
    let heads = numbers.per_layer("attention.head_count", layers)?.unwrap_or_default();
    let most = heads.iter().copied().max().unwrap_or(0);
    if most == 0 && has_attention {
        let key = numbers.metadata.model_key("attention.head_count");
        return Err(damaged(format!("{} is 0 or missing, the model has attention tensors", quoted(&key))));
    }
    let key_length = numbers.optional("attention.key_length", 1, 1 << 20)?;
    numbers.optional("attention.value_length", 1, 1 << 20)?;
    if most > embedding && key_length.is_none() {
        return Err(damaged(format!("{most} attention heads share an embedding of {embedding} values")));
    }
    let kv_heads = numbers.per_layer("attention.head_count_kv", layers)?.unwrap_or_default();
    check_sharing(&heads, &kv_heads)?;
    let default_length = heads.first().and_then(|first| embedding.checked_div(*first));
    Ok(key_length.or(default_length))
}

/// Attention asserts that its heads share the KV heads evenly.
fn check_sharing(heads: &[u64], kv_heads: &[u64]) -> Result<(), LoadError> {
    let uneven = |(heads, kv_heads): &(&u64, &u64)| **kv_heads > 0 && *heads % *kv_heads != 0;
    match heads.iter().zip(kv_heads).find(uneven) {
        None => Ok(()),
        Some((heads, kv_heads)) => Err(damaged(format!(
            "a layer has {heads} attention heads for {kv_heads} KV heads, it must be a multiple"
        ))),
    }
}

fn check_rope(numbers: &Numbers, head_size: Option<u64>) -> Result<(), LoadError> {
    let key = numbers.metadata.model_key("rope.scaling.type");
    let scaling = numbers.metadata.text(&key);
    if let Some(unknown) = scaling.filter(|scaling| !ROPE_SCALINGS.contains(scaling)) {
        let known = ROPE_SCALINGS.join(", ");
        return Err(unsupported(format!("{} is {}, known are {known}", quoted(&key), quoted(unknown))));
    }
    for windowed in ["", "_swa"] {
        check_rotation(numbers, windowed, head_size)?;
    }
    Ok(())
}

/// The rotation works on pairs of a head's values, and asserts that.
fn check_rotation(numbers: &Numbers, windowed: &str, head_size: Option<u64>) -> Result<(), LoadError> {
    let suffix = format!("rope.dimension_count{windowed}");
    let Some(rotated) = numbers.optional(&suffix, 0, 1 << 20)? else {
        return Ok(());
    };
    let key = numbers.metadata.model_key(&suffix);
    if rotated % 2 != 0 {
        return Err(damaged(format!("{} is {rotated}, it must be even", quoted(&key))));
    }
    let own_size = numbers.optional(&format!("attention.key_length{windowed}"), 1, 1 << 20)?;
    match own_size.or(head_size) {
        Some(size) if rotated > size => {
            Err(damaged(format!("{} is {rotated}, heads have {size} values", quoted(&key))))
        }
        Some(_) | None => Ok(()),
    }
}

/// The normalization operators assert that their epsilon is at least 0.
fn check_epsilons(numbers: &Numbers) -> Result<(), LoadError> {
    for name in ["layer_norm_epsilon", "layer_norm_rms_epsilon", "group_norm_epsilon"] {
        let key = numbers.metadata.model_key(&format!("attention.{name}"));
        match numbers.metadata.get(&key) {
            Some(Value::F32(epsilon)) if !(0.0..1.0).contains(epsilon) => {
                return Err(damaged(format!("{} is {epsilon}, it must be 0 to 1", quoted(&key))));
            }
            None | Some(Value::F32(_)) => {}
            Some(other) => {
                return Err(damaged(format!("{} has type {}, it must be f32", quoted(&key), other.kind())));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::LoadErrorReason;

    fn model(changes: &[(&str, Value)]) -> Result<(), LoadError> {
        let mut pairs = vec![
            ("block_count", Value::U32(2)),
            ("context_length", Value::U32(128)),
            ("embedding_length", Value::U32(64)),
            ("attention.head_count", Value::U32(4)),
            ("attention.head_count_kv", Value::U32(2)),
        ];
        pairs.retain(|(name, _)| changes.iter().all(|(changed, _)| changed != name));
        pairs.extend(changes.iter().cloned());
        let mut metadata = Metadata::default();
        metadata.insert("general.architecture".into(), Value::Str(b"llama".to_vec()));
        for (name, value) in pairs {
            metadata.insert(format!("llama.{name}"), value);
        }
        check(&metadata, true)
    }

    #[test]
    fn the_sound_model_passes() {
        assert_eq!(model(&[]), Ok(()));
        let experts = [("expert_count", Value::U32(8)), ("expert_used_count", Value::U32(2))];
        assert_eq!(model(&experts), Ok(()));
    }

    #[test]
    fn what_would_end_the_process_is_damage() {
        for (name, value) in [
            ("block_count", Value::U32(0)),
            ("block_count", Value::U32(513)),
            ("block_count", Value::I32(2)),
            ("context_length", Value::U32(0)),
            ("embedding_length", Value::U32(0)),
            ("nextn_predict_layers", Value::U32(3)),
            ("expert_count", Value::U32(8)),
            ("expert_used_count", Value::U32(1)),
            ("expert_group_count", Value::U32(2)),
            ("attention.head_count", Value::U32(0)),
            ("attention.head_count", Value::U32(65)),
            ("attention.head_count_kv", Value::U32(3)),
            ("attention.head_count_kv", Value::Str(b"2".to_vec())),
            ("rope.dimension_count", Value::U32(15)),
            ("rope.dimension_count", Value::U32(18)),
            ("attention.layer_norm_rms_epsilon", Value::F32(-1.0)),
            ("attention.layer_norm_epsilon", Value::F32(f32::NAN)),
        ] {
            let error = model(&[(name, value.clone())]).expect_err(&format!("{name} {value:?}"));
            assert_eq!(error.reason, LoadErrorReason::Damaged, "{name} {value:?}: {error}");
        }
    }

    #[test]
    fn an_unknown_rope_scaling_is_unsupported() {
        let error = model(&[("rope.scaling.type", Value::Str(b"bent".to_vec()))]).unwrap_err();
        assert_eq!(error.reason, LoadErrorReason::Unsupported);
    }
}
