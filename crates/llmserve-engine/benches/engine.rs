//! What the engine costs beside the model: steps and admission on the fake model, whose rows take
//! about a microsecond.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a bench that fails panics")]

use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use llmserve_engine::model::fake::{self, FakeContext, FakeVocabulary, Memory};
use llmserve_engine::{
    Engine, EngineParts, Event, GenerationRequest, KvLayout, ModelInfo, Prompt, RequestHandle, RequestParts,
    SchedulerConfig, StopParams, TokenId,
};

fn start(num_slots: usize, context_length: usize) -> Engine {
    let limits = fake::limits(num_slots, context_length, KvLayout::PerSequence, num_slots * context_length);
    Engine::start(EngineParts {
        open: Box::new(move || Ok(Box::new(FakeContext::new(limits, Memory::Attention)))),
        vocabulary: Arc::new(FakeVocabulary),
        info: ModelInfo::default(),
        scheduler: SchedulerConfig { parking_bytes: 0, ..SchedulerConfig::default() },
    })
    .expect("the fake engine starts")
}

fn request(prompt: Vec<TokenId>, max_tokens: u32) -> GenerationRequest {
    let stopping = StopParams { max_tokens: Some(max_tokens), ignore_eos: true, ..StopParams::default() };
    let parts = RequestParts { stopping, ..RequestParts::tokens(Vec::new(), max_tokens) };
    GenerationRequest::new(RequestParts { prompt: Prompt::Tokens(prompt), ..parts }).expect("it is valid")
}

fn wait(handle: &RequestHandle) {
    while let Some(event) = handle.recv() {
        assert!(!matches!(event, Event::Failed(_)), "{event:?}");
    }
}

fn prompt(index: usize, len: usize) -> Vec<TokenId> {
    (0..len).map(|at| TokenId(((index * 31 + at * at) % 200) as i32)).collect()
}

/// Time per token of decode steps of several sequences with 200 tokens each.
fn steps(criterion: &mut Criterion) {
    const TOKENS: u32 = 200;
    let mut group = criterion.benchmark_group("decode step on the fake model");
    for num_sequences in [1, 8, 32] {
        let engine = start(num_sequences, 1024);
        group.throughput(Throughput::Elements(num_sequences as u64 * u64::from(TOKENS)));
        group.bench_function(BenchmarkId::from_parameter(num_sequences), |bencher| {
            bencher.iter(|| {
                let submit = |index| engine.submit(request(prompt(index, 16), TOKENS), None);
                let handles: Vec<_> = (0..num_sequences).map(submit).collect();
                handles.iter().for_each(wait);
            });
        });
    }
    group.finish();
}

/// A request for one token whose prompt is found among many cached prefixes of 4,000 tokens.
fn prefix_lookup(criterion: &mut Criterion) {
    const LEN: usize = 4000;
    let mut group = criterion.benchmark_group("request with a cached prefix of 4,000 tokens");
    for num_cached in [1, 16, 128] {
        let engine = start(num_cached + 1, LEN + 64);
        for index in 0..num_cached {
            wait(&engine.submit(request(prompt(index, LEN), 1), None));
        }
        group.bench_function(BenchmarkId::from_parameter(num_cached), |bencher| {
            bencher.iter(|| wait(&engine.submit(request(prompt(num_cached / 2, LEN), 1), None)));
        });
    }
    group.finish();
}

criterion_group!(benches, steps, prefix_lookup);
criterion_main!(benches);
