//! What a model is for, by its metadata: generating text, or turning texts into vectors.
//!
//! Source: llama.cpp's architectures, `llama_model::create_memory` (which have no KV cache) and
//! `llama_hparams` (pooling, causal attention).

use super::check::ModelFile;
use super::metadata::{Metadata, Value};
use super::{damaged, quoted, unsupported};
use crate::error::LoadError;

/// How the vectors of a text's tokens become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// The mean of all vectors.
    Mean,
    /// The vector of the first token.
    Cls,
    /// The vector of the last token.
    Last,
    /// A score, by a head for ranking on top of one token's vector, or of their mean.
    Rank,
}

impl Pooling {
    /// The name in the Python API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Cls => "cls",
            Self::Last => "last",
            Self::Rank => "rank",
        }
    }
}

/// What a model is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelKind {
    /// The model generates text.
    Generation,
    /// The model gives embeddings.
    Embedding(EmbeddingKind),
}

/// How an embedding model computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmbeddingKind {
    /// How many vectors become one.
    pub pooling: Pooling,
    /// Whether a token sees only those before it.
    pub is_causal: bool,
    /// Whether llama.cpp keeps KV cells for the model.
    pub has_cache: bool,
    /// Whether positions are learned, so that there are none beyond the trained length.
    pub has_learned_positions: bool,
}

impl EmbeddingKind {
    /// Whether an input may be computed in several parts, one after the other: only where the last token's
    /// vector is taken and the former parts do not see the later ones.
    #[must_use]
    pub fn is_splittable(&self) -> bool {
        // A causal model ranks by its last token.
        self.has_cache && self.is_causal && matches!(self.pooling, Pooling::Last | Pooling::Rank)
    }

    /// Whether the model gives scores of pairs, and no vectors.
    #[must_use]
    pub fn is_ranking(&self) -> bool {
        self.pooling == Pooling::Rank
    }
}

/// Architectures that do nothing but embed, without KV cache: each token sees all others.
const ENCODERS: [&str; 9] = [
    "bert",
    "modern-bert",
    "nomic-bert",
    "nomic-bert-moe",
    "neo-bert",
    "jina-bert-v2",
    "jina-bert-v3",
    "eurobert",
    "gemma-embedding",
];
/// A decoder without the layer that gives logits.
const HEADLESS_DECODER: &str = "llama-embed";
/// Architectures that give neither text nor a vector for a text.
const NEITHER: [&str; 2] = ["clef", "wavtokenizer-dec"];
const WITH_ENCODER: [&str; 2] = ["t5", "t5encoder"];

/// The tensor that gives a score.
pub(super) const RANK_HEAD: &str = "cls.output.weight";

const POOLING_NONE: u32 = 0;
const POOLING_MEAN: u32 = 1;
const POOLING_CLS: u32 = 2;
const POOLING_LAST: u32 = 3;
const POOLING_RANK: u32 = 4;

impl ModelFile {
    /// What the model is for.
    ///
    /// # Errors
    /// `Unsupported` for models that are to rank without a head for it, encoder-decoder models, and models of
    /// other things than text; `Damaged` for an unknown pooling type.
    pub fn kind(&self) -> Result<ModelKind, LoadError> {
        let kind = kind_of(&self.metadata)?;
        // llama.cpp would take parts of a vector for scores.
        let is_ranking = matches!(kind, ModelKind::Embedding(kind) if kind.is_ranking());
        if is_ranking && !self.has_rank_head {
            return Err(unsupported(format!(
                "the model is to rank documents (pooling type RANK), but the file has no {RANK_HEAD}"
            )));
        }
        Ok(kind)
    }
}

/// [`ModelFile::kind`] from metadata, to which overrides may have been applied.
pub(super) fn kind_of(metadata: &Metadata) -> Result<ModelKind, LoadError> {
    let architecture = metadata.architecture().unwrap_or_default();
    if WITH_ENCODER.contains(&architecture) {
        return Err(unsupported("encoder-decoder models (T5) are not served"));
    }
    if NEITHER.contains(&architecture) {
        let name = quoted(architecture);
        return Err(unsupported(format!("models of architecture {name} give neither text nor embeddings")));
    }
    if matches!(metadata.text("tokenizer.ggml.model"), Some("none" | "no_vocab")) {
        return Err(unsupported("models without a vocabulary are not served"));
    }
    let is_encoder = ENCODERS.contains(&architecture);
    let Some(pooling) = pooling(metadata, is_encoder || architecture == HEADLESS_DECODER)? else {
        return Ok(ModelKind::Generation);
    };
    let is_causal = metadata.bool(&metadata.model_key("attention.causal")).unwrap_or(true);
    Ok(ModelKind::Embedding(EmbeddingKind {
        pooling,
        is_causal: is_causal && !is_encoder,
        has_cache: !is_encoder,
        has_learned_positions: architecture == "bert",
    }))
}

/// The pooling of an embedding model. An encoder takes the mean if its file does not say.
fn pooling(metadata: &Metadata, only_embeds: bool) -> Result<Option<Pooling>, LoadError> {
    let key = metadata.model_key("pooling_type");
    match metadata.get(&key) {
        Some(Value::U32(POOLING_MEAN)) => Ok(Some(Pooling::Mean)),
        Some(Value::U32(POOLING_CLS)) => Ok(Some(Pooling::Cls)),
        Some(Value::U32(POOLING_LAST)) => Ok(Some(Pooling::Last)),
        Some(Value::U32(POOLING_RANK)) => Ok(Some(Pooling::Rank)),
        // llama.cpp accepts any number and ends the process when it is to pool.
        Some(Value::U32(other)) if *other > POOLING_RANK => {
            Err(damaged(format!("{} is {other}, but must be 0 to {POOLING_RANK}", quoted(&key))))
        }
        None | Some(Value::U32(POOLING_NONE) | _) => Ok(only_embeds.then_some(Pooling::Mean)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::LoadErrorReason;

    fn kind(architecture: &str, keys: &[(&str, Value)]) -> Result<ModelKind, LoadError> {
        let mut metadata = Metadata::default();
        metadata.insert("general.architecture".into(), Value::Str(architecture.into()));
        for (name, value) in keys {
            metadata.insert(format!("{architecture}.{name}"), value.clone());
        }
        kind_of(&metadata)
    }

    fn embedding(architecture: &str, keys: &[(&str, Value)]) -> EmbeddingKind {
        match kind(architecture, keys) {
            Ok(ModelKind::Embedding(kind)) => kind,
            other => panic!("{architecture}: {other:?}"),
        }
    }

    #[test]
    fn decoders_embed_where_their_file_says_so() {
        assert_eq!(kind("qwen3", &[]), Ok(ModelKind::Generation));
        assert_eq!(kind("qwen3", &[("pooling_type", Value::U32(0))]), Ok(ModelKind::Generation));
        let last = embedding("qwen3", &[("pooling_type", Value::U32(3))]);
        assert_eq!((last.pooling, last.is_causal, last.has_cache), (Pooling::Last, true, true));
        assert!(last.is_splittable());
        let mean = [("pooling_type", Value::U32(1)), ("attention.causal", Value::Bool(false))];
        assert!(!embedding("qwen2", &mean).is_splittable());
        assert!(!embedding("qwen2", &mean).is_causal);
    }

    #[test]
    fn encoders_always_embed() {
        let silent = embedding("bert", &[]);
        assert_eq!((silent.pooling, silent.is_causal, silent.has_cache), (Pooling::Mean, false, false));
        assert!(silent.has_learned_positions);
        assert_eq!(embedding("nomic-bert", &[("pooling_type", Value::U32(2))]).pooling, Pooling::Cls);
        assert_eq!(embedding("llama-embed", &[]).pooling, Pooling::Mean);
    }

    #[test]
    fn rankers_are_known_by_their_pooling() {
        let rank = [("pooling_type", Value::U32(4))];
        assert!(embedding("bert", &rank).is_ranking());
        assert!(!embedding("bert", &rank).is_splittable());
        assert!(embedding("qwen3", &rank).is_splittable());
        assert!(!embedding("bert", &[]).is_ranking());
    }

    #[test]
    fn what_is_neither_is_refused() {
        for architecture in ["t5", "clef"] {
            let error = kind(architecture, &[]).unwrap_err();
            assert_eq!(error.reason, LoadErrorReason::Unsupported, "{architecture}: {error}");
        }
        let unknown = kind("qwen3", &[("pooling_type", Value::U32(5))]).unwrap_err();
        assert_eq!(unknown.reason, LoadErrorReason::Damaged);
    }
}
