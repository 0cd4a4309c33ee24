//! The cost of the text of one token.

#![allow(missing_docs, reason = "criterion's macros make undocumented functions")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use llmserve_engine::detokenizer::Detokenizer;

/// Tokens of a text with many near misses of the stop strings, and characters cut in two.
const TOKENS: [&[u8]; 16] = [
    b"The",
    b" quick",
    b" brown",
    b" fox",
    b"\n",
    b"###",
    b" User",
    b" jumps",
    b" over",
    b" caf\xC3",
    b"\xA9",
    b"\n\n",
    b" END",
    b" lazy",
    b" dog",
    b".",
];

const STOPS: [&str; 8] =
    ["\n\nUser:", "### End", "<|im_end|>", "</s>", "END OF TEXT", "\n\n\n", " jumps off", "Observation:"];

fn detokenizer(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("detokenizer");
    group.throughput(Throughput::Elements(1));
    for num_stops in [0, 1, 8] {
        let stops: Vec<String> = STOPS[..num_stops].iter().map(ToString::to_string).collect();
        let mut detokenizer = Detokenizer::new(&stops);
        let mut tokens = TOKENS.iter().cycle();
        group.bench_function(BenchmarkId::new("token, stop strings", num_stops), |bencher| {
            bencher.iter(|| detokenizer.push(black_box(tokens.next().copied().unwrap_or_default())));
        });
    }
    group.finish();
}

criterion_group!(benches, detokenizer);
criterion_main!(benches);
