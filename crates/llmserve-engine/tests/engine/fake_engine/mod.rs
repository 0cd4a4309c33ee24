//! The engine through its public API, on the deterministic fake model.

mod batching;
mod drafts;
mod ends;
mod limits;
mod reuse;
mod scores;
mod tenants;
mod wakeups;

use llmserve_engine::model::fake::Memory;
use llmserve_engine::*;

use crate::common::{Output, collect, expected_tokens, greedy};

const KINDS: [Memory; 3] = [Memory::Attention, Memory::SlidingWindow(16), Memory::Recurrent];

fn prompt(index: usize) -> String {
    format!("Prompt number {index}: {}", "lorem ipsum ".repeat(1 + index % 7))
}

fn assert_expected(output: &Output, prompt: &str, max_tokens: usize) {
    assert_eq!(output.tokens, expected_tokens(prompt, max_tokens), "{prompt}");
}

/// Submits all at once and compares each with the reference.
fn run_all(engine: &Engine, prompts: &[String], max_tokens: u32) -> Vec<Output> {
    let handles: Vec<_> =
        prompts.iter().map(|prompt| engine.submit(greedy(prompt, max_tokens), None)).collect();
    let outputs: Vec<Output> = handles.iter().map(|handle| collect(handle).unwrap()).collect();
    for (output, prompt) in outputs.iter().zip(prompts) {
        assert_expected(output, prompt, max_tokens as usize);
    }
    outputs
}

fn assert_idle(engine: &Engine) {
    let stats = engine.stats();
    assert_eq!((stats.num_running, stats.num_waiting, stats.num_preparing), (0, 0, 0));
}

/// The stats with all that the events set off which a test has seen. The engine thread answers between two steps,
/// and publishes its stats at the end of each.
fn settled(engine: &Engine) -> Stats {
    assert_eq!(engine.open_head(None).wait().err(), Some(Error::NoDraftHead));
    engine.stats()
}
