//! The cost of drawing one token, by vocabulary and parameters.

#![allow(missing_docs, reason = "criterion's macros make undocumented functions")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use llmserve_engine::sampler::{Bans, Sampled, Sampler, Scratch, Words};
use llmserve_engine::{DryParams, MirostatParams, MirostatVersion, SamplingParams, TokenId};

/// Vocabulary sizes of `SmolLM2` and `Qwen2.5`.
const VOCABULARIES: [usize; 2] = [49_152, 151_936];

/// Noise of a standard deviation of `spread` as the bulk, and a head of a hundred tokens whose
/// logits fall off above it as a language model's do.
fn logits(vocabulary: usize, spread: f32) -> Vec<f32> {
    let mut state = 1u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    let mut logits: Vec<f32> = (0..vocabulary)
        .map(|_| (0..12).map(|_| uniform()).sum::<f32>() - 6.0)
        .map(|noise| noise * spread)
        .collect();
    for rank in 0..100u16 {
        let id = (uniform() * vocabulary as f32) as usize % vocabulary;
        logits[id] = 18.0 - 1.5 * f32::from(rank + 1).ln();
    }
    logits
}

fn cases() -> Vec<(&'static str, SamplingParams, Option<u32>)> {
    let warm = || SamplingParams { temperature: 0.8, ..SamplingParams::default() };
    let greedy = SamplingParams::default;
    vec![
        ("greedy", greedy(), None),
        ("greedy, logprobs 5", greedy(), Some(5)),
        ("greedy, repetition penalty", SamplingParams { repetition_penalty: 1.1, ..greedy() }, None),
        ("temperature", warm(), None),
        ("top_k 40", SamplingParams { top_k: 40, ..warm() }, None),
        ("top_p 0.95", SamplingParams { top_p: 0.95, ..warm() }, None),
        ("min_p 0.05", SamplingParams { min_p: 0.05, ..warm() }, None),
        ("top_k 40, top_p 0.95", SamplingParams { top_k: 40, top_p: 0.95, ..warm() }, None),
        ("top_p 0.95, logprobs 5", SamplingParams { top_p: 0.95, ..warm() }, Some(5)),
        ("top_p 0.95, temperature 4", SamplingParams { top_p: 0.95, temperature: 4.0, ..warm() }, None),
        ("typical_p 0.9", SamplingParams { typical_p: 0.9, ..warm() }, None),
        ("top_n_sigma 1", SamplingParams { top_n_sigma: 1.0, ..warm() }, None),
        (
            "mirostat 2",
            SamplingParams {
                mirostat: MirostatParams { version: MirostatVersion::Two, tau: 5.0, eta: 0.1 },
                ..warm()
            },
            None,
        ),
        (
            "DRY",
            SamplingParams {
                dry: DryParams { multiplier: 0.8, last_n: 4096, ..DryParams::default() },
                ..greedy()
            },
            None,
        ),
    ]
}

fn sampler(criterion: &mut Criterion) {
    let prompt: Vec<TokenId> = (0..500).map(|id| TokenId(id * 7)).collect();
    let mut group = criterion.benchmark_group("sampler");
    for vocabulary in VOCABULARIES {
        let logits = logits(vocabulary, 2.0);
        for (name, params, logprobs) in cases() {
            let mut sampler = Sampler::new(&params, 1, logprobs, &prompt, |_| &[]);
            let mut scratch = Scratch::default();
            group.bench_function(BenchmarkId::new(name, vocabulary), |bencher| {
                bencher.iter(|| {
                    // Another position each time: draws fall on likely and on unlikely tokens.
                    sampler.accept(&Sampled::forced(TokenId(0)), &[]);
                    sampler.sample(black_box(&logits), Bans::default(), Words::default(), &mut scratch)
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, sampler);
criterion_main!(benches);
