//! The default model's vocabulary (`LLMSERVE_TEST_MODEL`; `make test` sets it).

use std::sync::Arc;

use crate::config::WeightsConfig;
use crate::model::Vocabulary;
use crate::model::llama::{LlamaVocabulary, Weights};

pub(super) fn default_vocabulary() -> Arc<dyn Vocabulary> {
    let path =
        std::env::var_os("LLMSERVE_TEST_MODEL").expect("LLMSERVE_TEST_MODEL is not set; `make test` sets it");
    let weights = Weights::load(path.as_ref(), &WeightsConfig::default(), true, |_| true).unwrap();
    Arc::new(LlamaVocabulary::new(Arc::new(weights)))
}
