//! Who keeps their cells and who loses them, through the public API, on the deterministic fake model.

use llmserve_engine::model::fake::{self, Memory};
use llmserve_engine::*;

use crate::common::{FakeEngine, collect, expected_tokens, greedy, request, wait_for_delta};

const KINDS: [Memory; 3] = [Memory::Attention, Memory::SlidingWindow(16), Memory::Recurrent];
const LAYOUTS: [KvLayout; 2] = [KvLayout::PerSequence, KvLayout::Unified];

/// A prompt of `len` letters, of which it shares the first with every other prompt.
fn letters(seed: usize, len: usize) -> String {
    let letter = |index: usize| char::from(b'b' + ((index * (seed + 3) + index / 7 + seed) % 25) as u8);
    std::iter::once('a').chain((1..len).map(letter)).collect()
}

/// Runs a prompt with a one-token answer; how many of its tokens had their cells.
fn num_cached(engine: &Engine, prompt: &str) -> usize {
    let output = collect(&engine.submit(greedy(prompt, 1), None)).unwrap();
    assert_eq!(output.tokens, expected_tokens(prompt, 1));
    output.finished.usage.num_cached_tokens
}

fn unparked(layout: KvLayout) -> FakeEngine {
    FakeEngine {
        limits: fake::limits(8, 1 << 16, layout, 8 << 16),
        scheduler: SchedulerConfig { parking_bytes: 0, ..SchedulerConfig::default() },
        ..FakeEngine::default()
    }
}

#[test]
fn a_conversation_keeps_its_cells_while_there_are_empty_slots() {
    for (memory, layout) in KINDS.into_iter().flat_map(|memory| LAYOUTS.map(|layout| (memory, layout))) {
        let engine = FakeEngine { memory, ..unparked(layout) }.start();
        let first = letters(0, 300);
        num_cached(&engine, &first);
        for seed in 1..=5 {
            num_cached(&engine, &letters(seed, 300));
        }
        let longer = format!("{first} and more");
        assert_eq!(num_cached(&engine, &longer), 300, "{memory:?} {layout:?}");
    }
}

#[test]
fn a_conversation_keeps_its_cells_beside_running_streams() {
    for layout in LAYOUTS {
        let engine = unparked(layout).start();
        let stopping = StopParams { max_tokens: Some(60_000), ignore_eos: true, ..StopParams::default() };
        let parts = RequestParts { stopping, ..RequestParts::text("stream", 60_000) };
        let _streams = [0, 1].map(|_| {
            let stream = engine.submit(request(parts.clone()), None);
            wait_for_delta(&stream);
            stream
        });
        let first = letters(0, 300);
        num_cached(&engine, &first);
        for seed in 1..=3 {
            num_cached(&engine, &letters(seed, 300));
        }
        assert_eq!(num_cached(&engine, &format!("{first} and more")), 300, "{layout:?}");
    }
}

#[test]
fn a_parked_conversation_survives_a_visitor_that_shares_its_beginning() {
    let limits = fake::limits(1, 2048, KvLayout::PerSequence, 2048);
    let engine = FakeEngine { limits, ..FakeEngine::default() }.start();
    let preamble = |index: usize| format!("{index} is the number of this preamble, which many share. ");
    let first = format!("{}{}", preamble(1), letters(0, 500));
    num_cached(&engine, &first);
    num_cached(&engine, &format!("{}{}", preamble(2), letters(1, 100)));
    let visitor = num_cached(&engine, &format!("{}{}", preamble(1), "A visitor"));
    assert_eq!(visitor, preamble(1).len());
    assert_eq!(num_cached(&engine, &format!("{first} and more")), first.len());
}
