//! What a context can do, by its options and the model's architecture.

use super::tiles::TILE;
use super::{ContextShape, Weights, gpus};
use crate::config::{ContextConfig, FlashAttention, KvLayout, KvType};
use crate::model::ContextLimits;

/// How a cache can be cut back, by the model's architecture.
#[derive(Debug, Clone, Copy)]
pub(super) enum Trimming {
    /// Cells of full attention: at any position.
    Anywhere,
    /// Cells outside the window are gone.
    WithinWindow(usize),
    /// A recurrent state, in all or some layers.
    Never,
}

pub(super) fn limits(
    config: &ContextConfig,
    shape: &ContextShape,
    trimming: Trimming,
    num_snapshots: usize,
) -> ContextLimits {
    ContextLimits {
        num_slots: shape.num_slots,
        context_length: shape.context_length,
        num_cells: shape.num_cells,
        layout: shape.layout,
        batch_size: config.batch_size as usize,
        max_outputs: shape.max_outputs(config.batch_size as usize),
        num_threads: shape.num_threads,
        trims_anywhere: matches!(trimming, Trimming::Anywhere),
        max_rollback: if matches!(trimming, Trimming::Never) { num_snapshots } else { usize::MAX },
        splits_batches: matches!(trimming, Trimming::Never) || shape.layout == KvLayout::PerSequence,
        tile: tile(config, trimming),
        is_deterministic: config.deterministic,
    }
}

/// Tiles are those of flash attention on CPUs, on caches of floating point numbers. A recurrent state has parts of its
/// own, and GPUs have other kernels.
fn tile(config: &ContextConfig, trimming: Trimming) -> usize {
    let is_float = |kind: KvType| matches!(kind, KvType::F16 | KvType::F32);
    let has_tiles = config.flash_attention != FlashAttention::Disabled
        && config.kv_type_k == config.kv_type_v
        && is_float(config.kv_type_k)
        && (config.ubatch_size.min(config.batch_size) as usize).is_multiple_of(TILE)
        && !matches!(trimming, Trimming::Never)
        && gpus().is_empty();
    if has_tiles { TILE } else { 1 }
}

pub(super) fn trimming(weights: &Weights) -> Trimming {
    let window = weights.sliding_window();
    if weights.is_recurrent() {
        Trimming::Never
    } else if window > 0 {
        // Also with `swa_full`: saved states leave masked cells out. While all cells exist the
        // window's rule allows every position.
        Trimming::WithinWindow(window)
    } else {
        Trimming::Anywhere
    }
}
