//! How many sequences of which length a context gets: as requested, or as many as memory allows.

use crate::config::{ContextConfig, KvLayout};
use crate::error::{LoadError, LoadErrorReason};
use crate::model::llama::ContextShape;

/// Maximum number of sequences in one of llama.cpp's contexts.
const MAX_SEQUENCES: u32 = 256;
/// Maximum number of tokens in a sequence: positions have 32 bits, and no real model comes near.
const MAX_CONTEXT_LENGTH: u32 = 1 << 27;
/// Context lengths that memory determines are rounded down to a multiple of this.
const ROUNDING: usize = 256;

/// The facts that the choice depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    /// Trained context length in tokens; 0 where unknown.
    pub(super) trained_length: u32,
    /// KV cache bytes of one token; `None` if the cache does not grow with tokens.
    pub(super) bytes_per_token: Option<u64>,
    /// Free memory in bytes, without the weights: what the cells of all layers may take.
    pub(super) free_bytes: u64,
    /// Cores that this process may use.
    pub(super) num_cores: usize,
    /// Whether layers go to a GPU.
    pub(super) has_gpu: bool,
}

/// The available memory, and how weights and cells are shared out between host and GPUs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Memory {
    pub(super) host_bytes: u64,
    /// Free memory of all GPUs.
    pub(super) gpu_bytes: u64,
    pub(super) weight_bytes: u64,
    /// Share of the layers that is on GPUs.
    pub(super) gpu_share: f64,
    /// Whether the cells of a layer are where the layer is.
    pub(super) has_cells_on_gpu: bool,
}

/// Bytes that the cells of all layers may take, if host and GPUs each have their share.
pub(super) fn free_for_cells(memory: &Memory) -> u64 {
    let left = |bytes: u64, share: f64| bytes as f64 - memory.weight_bytes as f64 * share;
    let cells_on_gpu = if memory.has_cells_on_gpu { memory.gpu_share } else { 0.0 };
    let whole = |left: f64, share: f64| if share > 0.0 { left.max(0.0) / share } else { f64::INFINITY };
    let on_host = whole(left(memory.host_bytes, 1.0 - memory.gpu_share), 1.0 - cells_on_gpu);
    on_host.min(whole(left(memory.gpu_bytes, memory.gpu_share), cells_on_gpu)) as u64
}

/// Chooses the shape: at most half of the free memory, unless more is requested.
pub(super) fn choose(config: &ContextConfig, facts: &Facts) -> Result<ContextShape, LoadError> {
    check(config)?;
    let num_threads = config.threads.map_or(facts.num_cores, |threads| threads as usize).max(1);
    let budget = facts.free_bytes / 2;
    let tokens_in =
        |bytes: u64| facts.bytes_per_token.map_or(usize::MAX, |each| (bytes / each.max(1)) as usize);
    let trained = if facts.trained_length == 0 { 4096 } else { facts.trained_length as usize };

    let context_length = match config.context_length {
        Some(length) => length as usize,
        None if trained <= tokens_in(budget) => trained,
        None => (tokens_in(budget) / ROUNDING * ROUNDING).clamp(ROUNDING.min(trained), trained),
    };
    let default_slots = default_sequences(num_threads, facts.has_gpu).min(config.batch_size as usize);
    let wanted_slots = config.max_sequences.map_or(default_slots, |n| n as usize);
    let all = context_length.saturating_mul(wanted_slots);
    let layout = match config.kv_layout {
        KvLayout::Auto if config.deterministic || all <= tokens_in(budget) => KvLayout::PerSequence,
        KvLayout::Auto => KvLayout::Unified,
        chosen @ (KvLayout::PerSequence | KvLayout::Unified) => chosen,
    };
    let (num_slots, num_cells) = match layout {
        KvLayout::PerSequence => {
            let fitting = (tokens_in(budget) / context_length.max(1)).max(1);
            let num_slots =
                if config.max_sequences.is_some() { wanted_slots } else { wanted_slots.min(fitting) };
            (num_slots, context_length.saturating_mul(num_slots))
        }
        KvLayout::Unified | KvLayout::Auto => {
            let default = all.min(tokens_in(budget)).max(context_length);
            (wanted_slots, config.kv_cells.map_or(default, |cells| cells as usize))
        }
    };
    if num_cells < context_length {
        let message = format!("must be at least the context length of {context_length}, got {num_cells}");
        return Err(LoadError::invalid_option("kv_cells", message));
    }
    let shape = ContextShape { context_length, num_slots, num_cells, layout, num_threads };
    if u32::try_from(shape.n_ctx()).is_err() {
        let most = u32::MAX;
        let message = format!(
            "{num_slots} sequences of {context_length} tokens are more than llama.cpp's {most} cells"
        );
        return Err(LoadError::invalid_option("context_length", message));
    }
    check_memory(&shape, facts)?;
    Ok(shape)
}

/// Four sequences per core keep the cores busy; a GPU takes more rows, whatever the number of cores.
fn default_sequences(num_threads: usize, has_gpu: bool) -> usize {
    if has_gpu { 16 } else { (4 * num_threads).clamp(4, 16) }
}

pub(super) fn check(config: &ContextConfig) -> Result<(), LoadError> {
    let range = |field: &str, value: Option<u32>, high: u32| match value {
        Some(value) if value == 0 || value > high => {
            Err(LoadError::invalid_option(field, format!("must be from 1 to {high}, got {value}")))
        }
        Some(_) | None => Ok(()),
    };
    range("context_length", config.context_length, MAX_CONTEXT_LENGTH)?;
    range("max_sequences", config.max_sequences, MAX_SEQUENCES)?;
    range("kv_cells", config.kv_cells, u32::MAX / 2)?;
    range("threads", config.threads, 512)?;
    range("batch_size", Some(config.batch_size), 1 << 16)?;
    range("ubatch_size", Some(config.ubatch_size), 1 << 16)?;
    if config.deterministic && config.kv_layout == KvLayout::Unified {
        let message = "needs `kv_layout` `per_sequence`, got `unified`";
        return Err(LoadError::invalid_option("deterministic", message));
    }
    let num_sequences = config.max_sequences.unwrap_or(4);
    if config.batch_size < num_sequences {
        let batch_size = config.batch_size;
        let message = format!("must be at least max_sequences ({num_sequences}), got {batch_size}");
        return Err(LoadError::invalid_option("batch_size", message));
    }
    if config.lora.iter().any(|adapter| !adapter.scale.is_finite()) {
        return Err(LoadError::invalid_option("lora", "scale must be a finite number"));
    }
    Ok(())
}

/// Refuses, with the numbers, what cannot fit, instead of failing inside llama.cpp.
fn check_memory(shape: &ContextShape, facts: &Facts) -> Result<(), LoadError> {
    let Some(bytes_per_token) = facts.bytes_per_token else {
        return Ok(());
    };
    let needed = bytes_per_token.saturating_mul(shape.num_cells as u64);
    // With a GPU, the cells need not be in this memory; its driver reports what does not fit.
    if needed <= facts.free_bytes || facts.has_gpu {
        return Ok(());
    }
    let setting = match shape.layout {
        KvLayout::PerSequence => "`context_length` or `max_sequences`",
        KvLayout::Unified | KvLayout::Auto => "`context_length` or `kv_cells`",
    };
    Err(LoadError::new(
        LoadErrorReason::NotEnoughMemory,
        format!(
            "the KV cache of {} tokens needs {} MiB, but only {} MiB are free; lower {setting}",
            shape.num_cells,
            needed >> 20,
            facts.free_bytes >> 20
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn facts(free_bytes: u64) -> Facts {
        Facts {
            trained_length: 8192,
            bytes_per_token: Some(23_040),
            free_bytes,
            num_cores: 2,
            has_gpu: false,
        }
    }

    fn shape(config: &ContextConfig, free_bytes: u64) -> (KvLayout, usize, usize, usize) {
        let shape = choose(config, &facts(free_bytes)).unwrap();
        (shape.layout, shape.context_length, shape.num_slots, shape.num_cells)
    }

    #[test]
    fn with_room_every_sequence_has_its_own_cells() {
        let config = ContextConfig::default();
        assert_eq!(shape(&config, 20 * GIB), (KvLayout::PerSequence, 8192, 8, 65_536));
    }

    #[test]
    fn with_less_room_they_share_a_pool() {
        let config = ContextConfig::default();
        assert_eq!(shape(&config, GIB), (KvLayout::Unified, 8192, 8, 23_301));
    }

    #[test]
    fn with_little_room_the_context_is_shorter() {
        let config = ContextConfig::default();
        assert_eq!(shape(&config, 100 << 20), (KvLayout::Unified, 2048, 8, 2275));
    }

    #[test]
    fn what_is_asked_for_is_taken_or_refused_with_the_numbers() {
        let config = ContextConfig { context_length: Some(1 << 24), ..ContextConfig::default() };
        let error = choose(&config, &facts(20 * GIB)).unwrap_err();
        assert_eq!(error.reason, LoadErrorReason::NotEnoughMemory);
        assert!(
            error.message.contains("368640 MiB") && error.message.contains("context_length"),
            "{}",
            error.message
        );
        let config =
            ContextConfig { context_length: Some(512), max_sequences: Some(32), ..ContextConfig::default() };
        assert_eq!(shape(&config, 20 * GIB), (KvLayout::PerSequence, 512, 32, 16_384));
    }

    #[test]
    fn cells_that_llama_cpp_cannot_count_are_refused() {
        // Where no memory is counted: a GPU, or a state that does not grow.
        let config = ContextConfig {
            context_length: Some(1 << 27),
            max_sequences: Some(32),
            kv_layout: KvLayout::PerSequence,
            ..ContextConfig::default()
        };
        let facts = Facts { bytes_per_token: None, ..facts(GIB) };
        let error = choose(&config, &facts).unwrap_err();
        assert_eq!(error.reason, LoadErrorReason::InvalidOption);
        assert!(error.message.contains("32 sequences of 134217728 tokens"), "{}", error.message);
    }

    #[test]
    fn cells_are_sized_by_the_memory_that_holds_them() {
        let cpu = Memory {
            host_bytes: 512 * GIB,
            gpu_bytes: 0,
            weight_bytes: 16 * GIB,
            gpu_share: 0.0,
            has_cells_on_gpu: true,
        };
        assert_eq!(free_for_cells(&cpu), 496 * GIB);
        let gpu = Memory { gpu_bytes: 24 * GIB, gpu_share: 1.0, ..cpu };
        assert_eq!(free_for_cells(&gpu), 8 * GIB);
        assert_eq!(free_for_cells(&Memory { has_cells_on_gpu: false, ..gpu }), 512 * GIB);
        // Half of the cells are on the GPU, beside half of the weights.
        assert_eq!(free_for_cells(&Memory { gpu_share: 0.5, ..gpu }), 32 * GIB);
        assert_eq!(free_for_cells(&Memory { weight_bytes: 30 * GIB, ..gpu }), 0);
    }

    #[test]
    fn out_of_range_options_are_named() {
        let config = ContextConfig { max_sequences: Some(257), ..ContextConfig::default() };
        let error = choose(&config, &facts(GIB)).unwrap_err();
        assert_eq!(error.to_string(), "max_sequences: must be from 1 to 256, got 257");
        let config =
            ContextConfig { deterministic: true, kv_layout: KvLayout::Unified, ..ContextConfig::default() };
        assert!(choose(&config, &facts(GIB)).unwrap_err().to_string().starts_with("deterministic: "));
        let config = ContextConfig { kv_layout: KvLayout::Auto, ..config };
        assert_eq!(shape(&config, GIB).0, KvLayout::PerSequence);
        let config =
            ContextConfig { kv_cells: Some(100), kv_layout: KvLayout::Unified, ..ContextConfig::default() };
        assert!(choose(&config, &facts(20 * GIB)).unwrap_err().to_string().starts_with("kv_cells: "));
    }
}
