//! One load from the file to the running engine: check, probe, weights, size, context.

use std::path::Path;
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use crate::config::{FlashAttention, KvLayout, ModelConfig, RopeConfig, WeightsConfig};
use crate::embed::Embedder;
use crate::engine::{Engine, EngineParts};
use crate::error::{LoadError, LoadErrorReason};
use crate::fingerprint::fingerprint;
use crate::gguf::{self, FileIdentity, ModelFile, ModelKind};
use crate::lock::lock;
use crate::memory;
use crate::model::Context;
use crate::model::llama::{
    ContextShape, LlamaContext, LlamaVocabulary, STATE_FORMAT, Weights, gpus, num_gpu_layers, unmet, with_log,
};
use crate::model_info::ModelInfo;
use crate::probe::{self, Candidate, ProbeOptions};
use crate::worker::{Handle, PerProcess};

use super::LoadOptions;
use super::embedder;
use super::failure::explain;
use super::sizing::{self, Facts, Memory};
use super::table::Loading;

/// Share of the progress that loading weights gets; the rest is for the context.
const WEIGHTS_SHARE: f32 = 0.95;

/// The result of a load.
pub(super) enum Loaded {
    Engine(Engine),
    Embedder(Embedder),
}

/// Loads a model and starts its engine, or, by its header, its embedder.
pub(super) fn open(
    path: &Path,
    config: &ModelConfig,
    options: &LoadOptions,
    loading: &Loading,
) -> Result<Loaded, LoadError> {
    let started = Instant::now();
    let file = gguf::check(path)?.with_overrides(&config.weights.metadata_overrides)?;
    let kind = file.kind()?;
    options.wanted.check(kind)?;
    config.scheduler.check()?;
    for option in unmet(&config.weights, gpus().len()) {
        log::warn!("{option}");
    }
    let loaded = match kind {
        ModelKind::Generation => Loaded::Engine(open_engine(&file, config, options, loading)?),
        ModelKind::Embedding(kind) => {
            Loaded::Embedder(embedder::open(&file, kind, config, options, loading)?)
        }
    };
    let handle: &Handle = match &loaded {
        Loaded::Engine(engine) => engine,
        Loaded::Embedder(embedder) => embedder,
    };
    handle.shared().note_load(started.elapsed());
    Ok(loaded)
}

fn open_engine(
    file: &ModelFile,
    config: &ModelConfig,
    options: &LoadOptions,
    loading: &Loading,
) -> Result<Engine, LoadError> {
    let mut adapters = Vec::new();
    for adapter in &config.context.lora {
        adapters.push(gguf::check_adapter(&adapter.path).map_err(|error| in_adapter(&error))?);
    }
    ensure_probed(file, &adapters, config, options, loading)?;
    let facts = facts(config, file)?;
    let shape = sizing::choose(&config.context, &facts)?;
    let weights = shared_weights(file, &config.weights, loading)?;
    if !weights.can_generate() {
        let message = "the model does not generate text (diffusion models are not served)";
        return Err(LoadError::new(LoadErrorReason::Unsupported, message));
    }
    let info = ModelInfo {
        fingerprint: fingerprint(file, &adapters, &config.context.lora)?,
        state_layout: state_layout(config, &shape, file.has_draft_head()),
        kv_bytes_per_token: facts.bytes_per_token,
        kv_type_k: config.context.kv_type_k.as_str(),
        kv_type_v: config.context.kv_type_v.as_str(),
        ..weights.info()
    };
    let engine = start(weights, info, config, shape)?;
    if loading.is_cancelled() {
        return Err(LoadError::new(LoadErrorReason::Cancelled, "the load was cancelled"));
    }
    log_loaded(&engine);
    loading.report(1.0);
    Ok(engine)
}

/// Makes sure that the file opens with these options, before any of its numbers is relied on.
pub(super) fn ensure_probed(
    file: &ModelFile,
    adapters: &[ModelFile],
    config: &ModelConfig,
    options: &LoadOptions,
    loading: &Loading,
) -> Result<(), LoadError> {
    sizing::check(&config.context)?;
    let candidate = Candidate { file, adapters, options: &ProbeOptions::of(config) };
    probe::ensure_probed(candidate, options.probe_command.as_deref(), &|| loading.is_cancelled())
}

/// What the size of a context depends on.
pub(super) fn facts(config: &ModelConfig, file: &ModelFile) -> Result<Facts, LoadError> {
    let available = memory::available_bytes();
    let weights = file.tensor_bytes();
    let gpus = gpus();
    let num_layers = number(file, "block_count");
    let num_gpu_layers = num_gpu_layers(config.weights.gpu_layers, num_layers, gpus.len());
    let has_gpu = num_gpu_layers > 0;
    if !has_gpu && !config.weights.use_mmap && weights > available {
        let message =
            format!("the weights need {} MiB, but only {} MiB are free", weights >> 20, available >> 20);
        return Err(LoadError::new(LoadErrorReason::NotEnoughMemory, message));
    }
    Ok(Facts {
        trained_length: number(file, "context_length"),
        bytes_per_token: gguf::bytes_per_token(file, config.context.kv_type_k, config.context.kv_type_v),
        free_bytes: sizing::free_for_cells(&Memory {
            host_bytes: available,
            gpu_bytes: gpus.iter().map(|gpu| gpu.free_bytes).sum(),
            weight_bytes: weights,
            gpu_share: f64::from(num_gpu_layers) / f64::from(num_layers + 1),
            has_cells_on_gpu: config.context.offload_kv,
        }),
        num_cores: std::thread::available_parallelism().map_or(1, usize::from),
        has_gpu,
    })
}

fn number(file: &ModelFile, name: &str) -> u32 {
    file.metadata.u32(&file.metadata.model_key(name)).unwrap_or(0)
}

/// Weights that are in memory, so that engines which differ only in their context share them.
struct LiveWeights {
    identity: Vec<FileIdentity>,
    config: WeightsConfig,
    /// Locked while they are loaded: another caller for the same weights waits for them.
    weights: Arc<Mutex<Weak<Weights>>>,
}

static LIVE: PerProcess<Mutex<Vec<LiveWeights>>> = PerProcess::new();

pub(super) fn shared_weights(
    file: &ModelFile,
    config: &WeightsConfig,
    loading: &Loading,
) -> Result<Arc<Weights>, LoadError> {
    let slot = live_slot(file, config);
    let mut shared = lock(&slot);
    if let Some(weights) = shared.upgrade() {
        loading.report(WEIGHTS_SHARE);
        return Ok(weights);
    }
    let (result, log) = with_log(|| {
        Weights::load(file.path(), config, file.has_draft_head(), false, |progress| {
            loading.report(progress * WEIGHTS_SHARE);
            !loading.is_cancelled()
        })
    });
    if result.is_err() && loading.is_cancelled() {
        return Err(LoadError::new(LoadErrorReason::Cancelled, "the load was cancelled"));
    }
    let weights = Arc::new(result.map_err(|error| explain(error, log))?);
    *shared = Arc::downgrade(&weights);
    Ok(weights)
}

fn live_slot(file: &ModelFile, config: &WeightsConfig) -> Arc<Mutex<Weak<Weights>>> {
    let identity = file.identity();
    let mut live = lock(LIVE.get());
    let is_same = |known: &&LiveWeights| known.identity == identity && known.config == *config;
    if let Some(known) = live.iter().find(is_same) {
        return Arc::clone(&known.weights);
    }
    // Entries that nobody loads from or has weights of are no longer needed.
    live.retain(|known| {
        Arc::strong_count(&known.weights) > 1
            || known.weights.try_lock().is_ok_and(|weights| weights.strong_count() > 0)
    });
    let weights = Arc::new(Mutex::new(Weak::new()));
    live.push(LiveWeights { identity, config: config.clone(), weights: Arc::clone(&weights) });
    weights
}

fn start(
    weights: Arc<Weights>,
    mut info: ModelInfo,
    config: &ModelConfig,
    shape: ContextShape,
) -> Result<Engine, LoadError> {
    let vocabulary = Arc::new(LlamaVocabulary::new(Arc::clone(&weights)));
    vocabulary.describe(&mut info);
    let context_config = config.context.clone();
    Engine::start(EngineParts {
        open: Box::new(move || {
            let (result, log) = with_log(|| LlamaContext::new(weights, &context_config, &shape));
            match result {
                Ok(context) => Ok(Box::new(context) as Box<dyn Context>),
                Err(error) => Err(explain(error, log)),
            }
        }),
        vocabulary,
        info,
        scheduler: config.scheduler.clone(),
    })
}

/// Everything but the weights that a saved KV state depends on. llama.cpp refuses some states that do not fit and
/// would compute with others.
fn state_layout(config: &ModelConfig, shape: &ContextShape, has_draft_head: bool) -> String {
    let context = &config.context;
    let flash_attention = match context.flash_attention {
        FlashAttention::Auto => "auto",
        FlashAttention::Enabled => "on",
        FlashAttention::Disabled => "off",
    };
    let num_streams = match shape.layout {
        KvLayout::PerSequence => shape.num_slots,
        KvLayout::Unified | KvLayout::Auto => 1,
    };
    let mut facts = vec![
        STATE_FORMAT.to_owned(),
        format!("K {}, V {}", context.kv_type_k.as_str(), context.kv_type_v.as_str()),
        format!("flash attention {flash_attention}"),
        format!("streams {num_streams}"),
    ];
    if has_draft_head {
        facts.push("draft head".to_owned());
    }
    if context.swa_full {
        facts.push("swa_full".to_owned());
    }
    // Keys are stored rotated, and overrides may change any part of the computation.
    if context.rope != RopeConfig::default() {
        facts.push(format!("{:?}", context.rope));
    }
    if !config.weights.metadata_overrides.is_empty() {
        facts.push(format!("overrides {:?}", config.weights.metadata_overrides));
    }
    facts.join("; ")
}

fn in_adapter(error: &LoadError) -> LoadError {
    LoadError::invalid_option("lora", error.message.clone()).with_detail(error.detail.clone())
}

fn log_loaded(engine: &Engine) {
    let info = engine.info();
    log::info!(
        "loaded {}: context length {}, {} sequences, {} KV cells ({}), {} threads, {} of {} layers on {}",
        info.description,
        info.context_length,
        info.num_slots,
        info.num_cells,
        info.kv_layout,
        info.num_threads,
        if info.num_gpu_layers == 0 { info.num_layers } else { info.num_gpu_layers },
        if info.num_gpu_layers == 0 { info.num_layers } else { info.num_layers + 1 },
        info.backend
    );
}
