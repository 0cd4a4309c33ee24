//! What a step costs beside the decode: 64 sequences draw from rows of a large vocabulary.
//!
//! The time is the engine's own count of what its steps took beyond the decode, so it includes the pool's
//! hand-over too, and the events.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a bench that fails panics")]

use std::sync::Arc;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use llmserve_engine::model::fake;
use llmserve_engine::model::{Compute, Context, ContextLimits, DecodeError, Row, Vocabulary};
use llmserve_engine::{
    Engine, EngineParts, Error, Event, GenerationRequest, KvLayout, ModelInfo, RequestHandle, RequestParts,
    SamplingParams, SchedulerConfig, SlotId, StopParams, TokenId,
};

/// The vocabulary size of `Qwen2.5`.
const VOCABULARY: usize = 151_936;
const SEQUENCES: usize = 64;
const TOKENS: u32 = 200;

/// Rows as a language model's: noise as the bulk, and above it a head whose logits fall off.
fn rows() -> Arc<Vec<Vec<f32>>> {
    let mut state = 1u64;
    let mut uniform = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    let mut row = || {
        let mut logits: Vec<f32> =
            (0..VOCABULARY).map(|_| ((0..6).map(|_| uniform()).sum::<f32>() - 3.0) * 2.8).collect();
        for rank in 0..100u16 {
            let id = (uniform() * VOCABULARY as f32) as usize % VOCABULARY;
            logits[id] = 18.0 - 1.5 * f32::from(rank + 1).ln();
        }
        logits
    };
    Arc::new((0..SEQUENCES).map(|_| row()).collect())
}

/// A context whose decode does nothing.
struct Idle {
    limits: ContextLimits,
    rows: Arc<Vec<Vec<f32>>>,
    /// The row of logits of each row of the batch.
    outputs: Vec<usize>,
}

impl Compute for Idle {
    fn limits(&self) -> &ContextLimits {
        &self.limits
    }
    fn decode(&mut self, rows: &[Row]) -> Result<(), DecodeError> {
        self.outputs.clear();
        self.outputs.extend(rows.iter().map(|row| row.slot.0 as usize + row.position as usize));
        Ok(())
    }
    fn logits(&self, index: usize) -> Option<&[f32]> {
        Some(&self.rows[self.outputs.get(index)? % self.rows.len()])
    }
}

impl Context for Idle {
    fn num_tokens(&self, _: SlotId) -> usize {
        0
    }
    fn can_trim(&self, _: SlotId, _: usize) -> bool {
        true
    }
    fn trim(&mut self, _: SlotId, _: usize) -> bool {
        true
    }
    fn clear(&mut self, _: SlotId) {}
    fn copy(&mut self, _: SlotId, _: SlotId) -> bool {
        true
    }
    fn state_bytes(&mut self, _: SlotId) -> usize {
        0
    }
    fn save(&mut self, _: SlotId, _: usize) -> Option<Vec<u8>> {
        None
    }
    fn restore(&mut self, _: SlotId, _: &[u8], _: usize) -> bool {
        false
    }
}

/// Every token is a word.
struct Words;

impl Vocabulary for Words {
    fn size(&self) -> usize {
        VOCABULARY
    }
    fn tokenize(&self, text: &str, _: bool, _: bool) -> Result<Vec<TokenId>, Error> {
        Ok(text.bytes().map(|byte| TokenId(i32::from(byte))).collect())
    }
    fn piece(&self, _: TokenId, _: bool) -> &[u8] {
        b" word"
    }
    fn max_piece_bytes(&self) -> usize {
        5
    }
    fn end_of_generation(&self) -> &[TokenId] {
        &[TokenId(VOCABULARY as i32 - 1)]
    }
}

fn start(num_threads: usize, rows: &Arc<Vec<Vec<f32>>>) -> Engine {
    let limits = fake::limits(SEQUENCES, 2048, KvLayout::PerSequence, SEQUENCES * 2048);
    let context = Idle {
        limits: ContextLimits { num_threads, batch_size: 256, ..limits },
        rows: Arc::clone(rows),
        outputs: Vec::new(),
    };
    Engine::start(EngineParts {
        open: Box::new(move || Ok(Box::new(context))),
        vocabulary: Arc::new(Words),
        info: ModelInfo::default(),
        scheduler: SchedulerConfig { parking_bytes: 0, ..SchedulerConfig::default() },
    })
    .expect("the engine starts")
}

fn wait(handle: &RequestHandle) {
    while let Some(event) = handle.recv() {
        assert!(!matches!(event, Event::Failed(_)), "{event:?}");
    }
}

fn warm() -> SamplingParams {
    SamplingParams { temperature: 0.8, top_k: 40, top_p: 0.95, ..SamplingParams::default() }
}

fn penalized() -> SamplingParams {
    SamplingParams { repetition_penalty: 1.1, frequency_penalty: 0.2, ..warm() }
}

/// The parameters of each sequence.
type Mix = fn(usize) -> SamplingParams;

fn mixes() -> [(&'static str, Mix); 5] {
    [
        ("mixed", |index| match index % 3 {
            0 => SamplingParams::default(),
            1 => warm(),
            _ => penalized(),
        }),
        ("greedy", |_| SamplingParams::default()),
        ("top_k 40, top_p 0.95", |_| warm()),
        ("the same, penalties", |_| penalized()),
        ("top_p 0.95", |_| SamplingParams { top_k: 0, ..warm() }),
    ]
}

/// What 64 tokens of 64 sequences take beyond the decode.
fn spent(engine: &Engine, params: Mix) -> Duration {
    let before = engine.stats();
    let handles: Vec<RequestHandle> = (0..SEQUENCES)
        .map(|index| {
            let prompt = (0..200).map(|at| TokenId(((index * 31 + at * at) % VOCABULARY) as i32)).collect();
            let stopping = StopParams { max_tokens: Some(TOKENS), ignore_eos: true, ..StopParams::default() };
            let sampling = SamplingParams { seed: Some(index as u64), ..params(index) };
            let parts = RequestParts {
                stopping,
                sampling,
                cache_prompt: false,
                ..RequestParts::tokens(prompt, TOKENS)
            };
            engine.submit(GenerationRequest::new(parts).expect("it is valid"), None)
        })
        .collect();
    handles.iter().for_each(wait);
    let after = engine.stats();
    let tokens = after.completion_tokens - before.completion_tokens;
    let seconds = after.overhead_seconds - before.overhead_seconds;
    Duration::from_secs_f64(seconds * SEQUENCES as f64 / tokens as f64)
}

fn steps(criterion: &mut Criterion) {
    let rows = rows();
    for (name, params) in mixes() {
        let mut group = criterion.benchmark_group(format!("output of 64 sequences x 152k, {name}"));
        group.sample_size(10);
        for num_threads in [1, 2, 4, 8] {
            if num_threads > std::thread::available_parallelism().map_or(1, usize::from) {
                continue;
            }
            let engine = start(num_threads, &rows);
            group.bench_function(BenchmarkId::new("threads", num_threads), |bencher| {
                bencher.iter_custom(|times| (0..times).map(|_| spent(&engine, params)).sum());
            });
        }
        group.finish();
    }
}

criterion_group!(benches, steps);
criterion_main!(benches);
