//! The load of an embedding model, from the checked file to the running embedder.

use std::sync::Arc;

use crate::config::ModelConfig;
use crate::embed::{Embedder, EmbedderParts};
use crate::error::{LoadError, LoadErrorReason};
use crate::fingerprint::fingerprint;
use crate::gguf::{EmbeddingKind, ModelFile};
use crate::model::EmbeddingContext;
use crate::model::llama::{EmbeddingShape, LlamaEmbedding, LlamaVocabulary, Weights, with_log};
use crate::model_info::ModelInfo;

use super::LoadOptions;
use super::embedding_shape;
use super::failure::explain;
use super::open::{ensure_probed, facts, shared_weights};
use super::table::Loading;

pub(super) fn open(
    file: &ModelFile,
    kind: EmbeddingKind,
    config: &ModelConfig,
    options: &LoadOptions,
    loading: &Loading,
) -> Result<Embedder, LoadError> {
    if !config.context.lora.is_empty() {
        return Err(LoadError::invalid_option("lora", "adapters are for models that generate text"));
    }
    ensure_probed(file, &[], config, options, loading)?;
    let facts = facts(config, file)?;
    let shape = embedding_shape::choose(&config.context, file, kind, &facts)?;
    let weights = shared_weights(file, &config.weights, loading)?;
    let info = ModelInfo {
        fingerprint: fingerprint(file, &[], &[])?,
        pooling: kind.pooling.as_str(),
        kv_bytes_per_token: facts.bytes_per_token.filter(|_| kind.has_cache),
        kv_type_k: config.context.kv_type_k.as_str(),
        kv_type_v: config.context.kv_type_v.as_str(),
        kv_layout: "unified",
        ..weights.info()
    };
    let embedder = start(weights, info, config, shape)?;
    if loading.is_cancelled() {
        return Err(LoadError::new(LoadErrorReason::Cancelled, "the load was cancelled"));
    }
    log_loaded(&embedder);
    loading.report(1.0);
    Ok(embedder)
}

fn start(
    weights: Arc<Weights>,
    mut info: ModelInfo,
    config: &ModelConfig,
    shape: EmbeddingShape,
) -> Result<Embedder, LoadError> {
    let vocabulary = Arc::new(LlamaVocabulary::new(Arc::clone(&weights)));
    vocabulary.describe(&mut info);
    let context_config = config.context.clone();
    Embedder::start(EmbedderParts {
        open: Box::new(move || {
            let (result, log) = with_log(|| LlamaEmbedding::new(&weights, &context_config, &shape));
            match result {
                Ok(context) => Ok(Box::new(context) as Box<dyn EmbeddingContext>),
                Err(error) => Err(explain(error, log)),
            }
        }),
        vocabulary,
        info,
        is_ranking: shape.kind.is_ranking(),
        scheduler: config.scheduler.clone(),
    })
}

fn log_loaded(embedder: &Embedder) {
    let info = embedder.info();
    log::info!(
        "loaded {}: {} values for each input ({} pooling), context length {}, {} inputs at once, {} threads",
        info.description,
        info.embedding_length,
        info.pooling,
        info.context_length,
        info.num_slots,
        info.num_threads
    );
}
