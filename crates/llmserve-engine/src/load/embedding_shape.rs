//! How long the inputs of an embedding model may be: as requested, or as long as memory allows.

use super::sizing::{Facts, check};
use crate::config::ContextConfig;
use crate::error::{LoadError, LoadErrorReason};
use crate::gguf::{EmbeddingKind, ModelFile, Value};
use crate::model::llama::EmbeddingShape;

/// Default number of inputs that are computed together: with more, each would be shorter than a sentence.
const DEFAULT_SEQUENCES: usize = 64;
/// Lengths that memory determines are rounded down to a multiple of this.
const ROUNDING: usize = 256;

/// Memory that rows take, beside the weights.
#[derive(Debug, Clone, Copy)]
struct Cost {
    /// Bytes of each row: llama.cpp keeps room for the logits of every row of a batch, also where the
    /// model has none.
    row: u64,
    /// Bytes of each pair of rows that are computed together: the attention mask, and scores of all heads
    /// in case attention is not fused.
    pair: u64,
    /// Bytes of each KV cell.
    cell: u64,
}

/// Chooses the shape: at most half of the free memory, unless more is requested.
///
/// A model whose tokens see those behind them needs all rows of an input in one computation.
pub(super) fn choose(
    config: &ContextConfig,
    file: &ModelFile,
    kind: EmbeddingKind,
    facts: &Facts,
) -> Result<EmbeddingShape, LoadError> {
    check(config)?;
    shape(config, kind, facts, cost(file, kind, facts))
}

fn shape(
    config: &ContextConfig,
    kind: EmbeddingKind,
    facts: &Facts,
    cost: Cost,
) -> Result<EmbeddingShape, LoadError> {
    let batch_rows = config.ubatch_size.min(config.batch_size) as usize;
    let trained = if facts.trained_length == 0 { 512 } else { facts.trained_length as usize };
    let max_sequences = config.max_sequences.map_or(DEFAULT_SEQUENCES, |n| n as usize).min(batch_rows);
    let with_length = |context_length: usize| {
        let longest = if kind.is_splittable() { batch_rows } else { batch_rows.max(context_length) };
        // llama.cpp reserves for as many rows of each sequence, and asserts that they are all rows.
        let max_rows = longest.next_multiple_of(max_sequences);
        EmbeddingShape {
            kind,
            context_length,
            batch_rows,
            max_rows,
            max_sequences,
            num_cells: context_length.max(max_rows),
            num_threads: config.threads.map_or(facts.num_cores, |threads| threads as usize).max(1),
        }
    };
    let shape = match config.context_length {
        Some(length) if kind.has_learned_positions => with_length((length as usize).min(trained)),
        Some(length) => with_length(length as usize),
        None => {
            with_length(longest(trained, |length| needed(&with_length(length), cost) <= facts.free_bytes / 2))
        }
    };
    let needed = needed(&shape, cost);
    // With a GPU, its driver reports what does not fit.
    if needed <= facts.free_bytes || facts.has_gpu {
        return Ok(shape);
    }
    let message = format!(
        "inputs of {} tokens need {} MiB, but only {} MiB are free; lower `context_length` or \
         `ubatch_size`",
        shape.context_length,
        needed >> 20,
        facts.free_bytes >> 20
    );
    Err(LoadError::new(LoadErrorReason::NotEnoughMemory, message))
}

/// The longest length, at most the trained one, that fits; the smallest one if none does.
fn longest(trained: usize, fits: impl Fn(usize) -> bool) -> usize {
    if fits(trained) {
        return trained;
    }
    let steps = (1..=trained / ROUNDING).rev().map(|steps| steps * ROUNDING);
    steps.into_iter().find(|length| fits(*length)).unwrap_or(trained.min(ROUNDING))
}

fn needed(shape: &EmbeddingShape, cost: Cost) -> u64 {
    let rows = shape.max_rows as u64;
    let seen = if shape.kind.has_cache { shape.num_cells as u64 } else { rows };
    let cells = if shape.kind.has_cache { shape.num_cells as u64 } else { 0 };
    let pairs = rows.saturating_mul(seen).saturating_mul(cost.pair);
    pairs.saturating_add(rows.saturating_mul(cost.row)).saturating_add(cells.saturating_mul(cost.cell))
}

fn cost(file: &ModelFile, kind: EmbeddingKind, facts: &Facts) -> Cost {
    const F32: u64 = 4;
    let metadata = &file.metadata;
    let number = |suffix: &str| {
        let value = metadata.integer(&metadata.model_key(suffix)).unwrap_or(0);
        u64::try_from(value).unwrap_or(0)
    };
    let vocabulary = match metadata.get("tokenizer.ggml.tokens") {
        Some(Value::Array(tokens)) => tokens.length,
        Some(_) | None => 0,
    };
    // A decoder computes the logits, too, which nobody reads.
    let logits = if kind.has_cache { vocabulary.saturating_mul(2) } else { vocabulary };
    let hidden = 8_u64.saturating_mul(number("embedding_length"));
    let hidden = hidden.saturating_add(number("feed_forward_length").saturating_mul(3));
    Cost {
        row: F32.saturating_mul(logits.saturating_add(hidden)),
        pair: F32.saturating_mul(2),
        cell: facts.bytes_per_token.unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gguf::Pooling;

    const ENCODER: EmbeddingKind = EmbeddingKind {
        pooling: Pooling::Mean,
        is_causal: false,
        has_cache: false,
        has_learned_positions: false,
    };
    const DECODER: EmbeddingKind =
        EmbeddingKind { pooling: Pooling::Last, is_causal: true, has_cache: true, ..ENCODER };
    const COST: Cost = Cost { row: 1 << 20, pair: 8, cell: 1 << 16 };

    fn facts(trained_length: u32, free_bytes: u64) -> Facts {
        Facts { trained_length, bytes_per_token: None, free_bytes, num_cores: 2, has_gpu: false }
    }

    fn chosen(
        config: &ContextConfig,
        kind: EmbeddingKind,
        facts: &Facts,
    ) -> Result<(usize, usize, usize), LoadError> {
        let shape = shape(config, kind, facts, COST)?;
        Ok((shape.context_length, shape.max_rows, shape.num_cells))
    }

    #[test]
    fn all_rows_of_an_input_are_computed_together_where_they_must() {
        let config = ContextConfig::default();
        let plenty = facts(8192, 1 << 36);
        assert_eq!(chosen(&config, ENCODER, &plenty), Ok((8192, 8192, 8192)));
        assert_eq!(chosen(&config, DECODER, &plenty), Ok((8192, 512, 8192)));
        assert_eq!(chosen(&config, ENCODER, &facts(128, 1 << 36)), Ok((128, 512, 512)));
    }

    #[test]
    fn with_little_room_inputs_are_shorter() {
        let config = ContextConfig::default();
        // A row takes 1 MiB: half of 4 GiB has room for a little less than 2048 of them.
        assert_eq!(chosen(&config, ENCODER, &facts(8192, 4 << 30)), Ok((1792, 1792, 1792)));
    }

    #[test]
    fn what_is_asked_for_is_taken_or_refused_with_the_numbers() {
        let config = ContextConfig { context_length: Some(4096), ..ContextConfig::default() };
        assert_eq!(chosen(&config, ENCODER, &facts(2048, 1 << 36)), Ok((4096, 4096, 4096)));
        let learned = EmbeddingKind { has_learned_positions: true, ..ENCODER };
        assert_eq!(chosen(&config, learned, &facts(512, 1 << 36)), Ok((512, 512, 512)));
        let error = chosen(&config, ENCODER, &facts(8192, 1 << 30)).unwrap_err();
        assert_eq!(error.reason, LoadErrorReason::NotEnoughMemory);
        assert!(error.message.contains("4096 tokens need 4224 MiB, but only 1024 MiB"), "{}", error.message);
    }

    #[test]
    fn options_are_kept_or_refused() {
        let config = ContextConfig { max_sequences: Some(257), ..ContextConfig::default() };
        assert!(check(&config).is_err());
        let odd = ContextConfig { max_sequences: Some(7), ..ContextConfig::default() };
        assert_eq!(chosen(&odd, ENCODER, &facts(1000, 1 << 36)), Ok((1000, 1001, 1001)));
        let few = ContextConfig { max_sequences: Some(8), ubatch_size: 4, ..ContextConfig::default() };
        assert_eq!(shape(&few, ENCODER, &facts(64, 1 << 36), COST).unwrap().max_sequences, 4);
    }
}
