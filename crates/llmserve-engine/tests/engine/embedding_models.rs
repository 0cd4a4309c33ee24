//! Embedding models on tiny generated GGUF files (`LLMSERVE_SYNTHETIC_DIR`; `make test` sets it).

use std::path::PathBuf;

use llmserve_engine::probe::ProbeOptions;
use llmserve_engine::*;

/// llama.cpp rounds parts of a computation to 16 bits, in an order that depends on the batch.
const EPSILON: f32 = 2e-3;

fn model(name: &str) -> PathBuf {
    let folder = std::env::var_os("LLMSERVE_SYNTHETIC_DIR");
    PathBuf::from(folder.expect("LLMSERVE_SYNTHETIC_DIR is not set; `make test` sets it")).join(name)
}

fn config() -> ModelConfig {
    let context = ContextConfig { threads: Some(1), context_length: Some(256), ..ContextConfig::default() };
    ModelConfig { context, ..ModelConfig::default() }
}

/// How a load ends.
fn end_of(name: &str, config: ModelConfig, wanted: Wanted) -> LoadEvent {
    let loading = load(&model(name), config, LoadOptions { wanted, ..LoadOptions::default() }, None);
    let mut last = -1.0;
    loop {
        match loading.recv().expect("a terminal event comes first") {
            LoadEvent::Progress(share) => {
                assert!(share >= last, "{share} after {last}");
                last = share;
            }
            end @ (LoadEvent::Ready(_) | LoadEvent::ReadyEmbedder(_) | LoadEvent::Failed(_)) => return end,
        }
    }
}

fn embedder(name: &str) -> Embedder {
    match end_of(name, config(), Wanted::Any) {
        LoadEvent::ReadyEmbedder(embedder) => embedder,
        LoadEvent::Failed(error) => panic!("{error}\n{}", error.detail),
        LoadEvent::Ready(_) | LoadEvent::Progress(_) => panic!("{name} gave no embedder"),
    }
}

fn failure(name: &str, config: ModelConfig, wanted: Wanted) -> LoadError {
    match end_of(name, config, wanted) {
        LoadEvent::Failed(error) => error,
        LoadEvent::Ready(_) | LoadEvent::ReadyEmbedder(_) | LoadEvent::Progress(_) => panic!("{name} loaded"),
    }
}

fn farthest(one: &[f32], other: &[f32]) -> f32 {
    assert_eq!(one.len(), other.len());
    one.iter().zip(other).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn inputs_give_the_same_vectors_alone_and_together() {
    for name in ["bert-mean.gguf", "bert-cls.gguf", "embed-last.gguf"] {
        let embedder = embedder(name);
        let texts: Vec<String> = (0..100).map(|number| "the sea ".repeat(1 + number % 13)).collect();
        let together = embedder.embed(EmbeddingRequest::texts(&texts), None).wait().unwrap();
        assert_eq!(together.dimensions as u32, embedder.info().embedding_length);
        for (text, vector) in texts.iter().zip(together.vectors()).step_by(7) {
            let alone = embedder.embed(EmbeddingRequest::texts([text]), None).wait().unwrap();
            assert!(farthest(&alone.values, vector) < EPSILON, "{name} {text}");
            let length: f32 = vector.iter().map(|value| value * value).sum();
            assert!((length - 1.0).abs() < 1e-5, "{name}: {length}");
        }
        assert_eq!(embedder.stats().requests_failed, 0);
    }
}

#[test]
fn the_header_tells_what_a_model_is_for() {
    let kind = |name: &str| model_kind(&model(name), &[]).unwrap();
    assert_eq!(kind("llama.gguf"), ModelKind::Generation);
    for name in ["bert-mean.gguf", "embed-last.gguf"] {
        assert!(matches!(kind(name), ModelKind::Embedding(_)), "{name}");
        assert_eq!(failure(name, config(), Wanted::Generation).reason, LoadErrorReason::WrongKind);
    }
    assert_eq!(failure("llama.gguf", config(), Wanted::Embedding).reason, LoadErrorReason::WrongKind);
    let pooled = [("llama.pooling_type".to_owned(), MetadataValue::Int(3))];
    assert!(matches!(model_kind(&model("llama.gguf"), &pooled), Ok(ModelKind::Embedding(_))));
}

#[test]
fn rankers_without_a_head_are_refused_by_their_header() {
    let mut config = config();
    config.weights.metadata_overrides = vec![("bert.pooling_type".to_owned(), MetadataValue::Int(4))];
    let error = failure("bert-mean.gguf", config, Wanted::Any);
    assert_eq!(error.reason, LoadErrorReason::Unsupported);
    assert!(error.message.contains("cls.output.weight"), "{error}");
}

#[test]
fn a_probe_opens_embedding_models_too() {
    for name in ["bert-mean.gguf", "bert-cls.gguf", "embed-last.gguf"] {
        assert_eq!(probe_model(&model(name), &ProbeOptions::default()), Ok(()), "{name}");
    }
}

#[test]
fn dropping_the_last_handle_ends_what_waits() {
    let embedder = embedder("bert-mean.gguf");
    let jobs: Vec<_> = (0..20)
        .map(|_| embedder.embed(EmbeddingRequest::texts(vec!["the sea is deep"; 2000]), None))
        .collect();
    drop(embedder);
    // Some may have been computed; none waits for ever.
    for job in jobs {
        assert!(matches!(job.wait(), Ok(_) | Err(Error::ShutDown)));
    }
}
