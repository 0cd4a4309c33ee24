//! What a probe process does: everything that llama.cpp may refuse by ending the process, and nothing that
//! takes memory.

use std::path::Path;
use std::sync::Arc;

use crate::config::{ContextConfig, KvLayout};
use crate::error::{LoadError, LoadErrorReason};
use crate::gguf::{self, EmbeddingKind, Metadata, ModelKind};
use crate::model::llama::{
    ContextShape, EmbeddingShape, LlamaContext, LlamaEmbedding, LlamaVocabulary, Weights, with_log,
};
use crate::model::{Compute, Vocabulary};
use crate::probe::ProbeOptions;

use super::failure::explain;

/// The smallest context that llama.cpp makes.
const SHAPE: ContextShape = ContextShape {
    context_length: 256,
    num_slots: 1,
    num_cells: 256,
    layout: KvLayout::PerSequence,
    num_threads: 1,
};
/// Maximum number of tokens in an embedding model's context.
const EMBEDDING_ROWS: usize = 64;

/// Opens a model with its options, without allocating its tensors, and makes a context for it.
/// llama.cpp may end the process.
///
/// # Errors
/// The file or the options are wrong.
pub fn probe_model(path: &Path, options: &ProbeOptions) -> Result<(), LoadError> {
    let file = gguf::check(path)?.with_overrides(&options.weights.metadata_overrides)?;
    let kind = file.kind()?;
    let (result, log) = with_log(|| {
        let weights = Weights::load(file.path(), &options.weights, file.has_draft_head(), true, |_| true)?;
        let weights = Arc::new(weights);
        check_rotation(&weights, &file.metadata)?;
        try_vocabulary(&weights)?;
        // Some contradictions show only when the graph is built.
        let made = match kind {
            ModelKind::Generation => try_context(weights, &options.context),
            ModelKind::Embedding(kind) => try_embedding(&weights, kind, &options.context),
        };
        match made {
            // The load reports the same, with the size that it needs.
            Err(error) if error.reason == LoadErrorReason::NotEnoughMemory => Ok(()),
            made => made,
        }
    });
    result.map_err(|error| {
        let mut error = explain(error, log);
        if error.reason == LoadErrorReason::Other {
            error.reason = LoadErrorReason::Damaged;
        }
        error
    })
}

/// llama.cpp never ends a rotation of 0 values. Architectures without one write that number, too.
fn check_rotation(weights: &Weights, metadata: &Metadata) -> Result<(), LoadError> {
    let is_empty = |suffix| metadata.integer(&metadata.model_key(suffix)) == Some(0);
    if weights.has_rotation()
        && ["rope.dimension_count", "rope.dimension_count_swa"].into_iter().any(is_empty)
    {
        return Err(LoadError::new(LoadErrorReason::Damaged, "the model rotates 0 values of each head"));
    }
    Ok(())
}

/// Asks for everything that a load asks for, and tokenizes a plain text and one that hardly any vocabulary can spell.
fn try_vocabulary(weights: &Arc<Weights>) -> Result<(), LoadError> {
    let damaged = |message: &str| Err(LoadError::new(LoadErrorReason::Damaged, message));
    let vocabulary = LlamaVocabulary::new(Arc::clone(weights));
    vocabulary.describe(&mut weights.info());
    for (text, is_plain) in [("a", true), ("\u{e000}", false)] {
        let is_token = |id: i32| usize::try_from(id).is_ok_and(|id| id < vocabulary.size());
        match vocabulary.tokenize(text, true, true) {
            Ok(tokens) if tokens.iter().all(|token| is_token(token.0)) => {}
            Ok(_) => return damaged("the vocabulary lacks a token that must be added to texts"),
            Err(_) if is_plain => return damaged("the vocabulary cannot turn text into tokens"),
            Err(_) => {}
        }
    }
    Ok(())
}

fn try_context(weights: Arc<Weights>, config: &ContextConfig) -> Result<(), LoadError> {
    let has_draft_head = weights.has_draft_head();
    let mut context = LlamaContext::new(weights, config, &SHAPE)?;
    if has_draft_head && context.open_head().is_err() {
        let message = "the model's draft head cannot be used";
        return Err(LoadError::new(LoadErrorReason::Damaged, message));
    }
    Ok(())
}

fn try_embedding(
    weights: &Arc<Weights>,
    kind: EmbeddingKind,
    config: &ContextConfig,
) -> Result<(), LoadError> {
    let shape = EmbeddingShape {
        kind,
        context_length: EMBEDDING_ROWS,
        batch_rows: EMBEDDING_ROWS,
        max_rows: EMBEDDING_ROWS,
        max_sequences: 1,
        num_cells: EMBEDDING_ROWS,
        num_threads: 1,
    };
    LlamaEmbedding::new(weights, config, &shape).map(drop)
}
