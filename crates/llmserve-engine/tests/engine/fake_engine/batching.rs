//! Many sequences at once give the text of each alone, whatever the room.

use std::sync::Arc;

use llmserve_engine::model::fake::{self, FakeVocabulary};
use llmserve_engine::model::{ContextLimits, Vocabulary};
use llmserve_engine::*;

use super::{KINDS, assert_idle, prompt, run_all, settled};
use crate::common::{FakeEngine, Output, collect, request, wait_for_delta};

#[test]
fn thirty_two_streams_at_once_give_the_text_of_each_alone() {
    for memory in KINDS {
        let setup = FakeEngine { memory, ..FakeEngine::default() };
        let engine = setup.start();
        let prompts: Vec<String> = (0..32).map(prompt).collect();
        run_all(&engine, &prompts, 100);
        settled(&engine);
        assert_idle(&engine);
    }
}

#[test]
fn twice_as_many_requests_as_the_cells_hold_all_finish() {
    for memory in KINDS {
        for parking_bytes in [0, 64 << 20] {
            let setup = FakeEngine {
                limits: fake::limits(8, 1000, KvLayout::Unified, 2000),
                memory,
                scheduler: SchedulerConfig { parking_bytes, ..SchedulerConfig::default() },
                ..FakeEngine::default()
            };
            let engine = setup.start();
            let prompts: Vec<String> = (0..16).map(prompt).collect();
            let parts = |prompt: &String| RequestParts {
                stopping: StopParams { max_tokens: Some(600), ignore_eos: true, ..StopParams::default() },
                ..RequestParts::text(prompt, 600)
            };
            let alone: Vec<Output> = prompts
                .iter()
                .map(|prompt| collect(&engine.submit(request(parts(prompt)), None)).unwrap())
                .collect();
            let handles: Vec<_> =
                prompts.iter().map(|prompt| engine.submit(request(parts(prompt)), None)).collect();
            for (handle, alone) in handles.iter().zip(&alone) {
                assert_eq!(collect(handle).unwrap().tokens, alone.tokens);
            }
            let stats = settled(&engine);
            assert!(stats.preemptions > 0, "{memory:?} {parking_bytes}: nothing was preempted");
            assert_eq!(stats.requests_failed, 0);
        }
    }
}

#[test]
fn a_pool_that_is_full_before_the_count_says_so_slows_down_and_fails_nobody() {
    let setup = FakeEngine {
        limits: fake::limits(8, 500, KvLayout::Unified, 4000),
        // llama.cpp's own count may be larger: here it has far fewer cells than it says.
        num_real_cells: Some(900),
        ..FakeEngine::default()
    };
    let engine = setup.start();
    let prompts: Vec<String> = (0..8).map(prompt).collect();
    let parts = |prompt: &String| RequestParts {
        stopping: StopParams { max_tokens: Some(300), ignore_eos: true, ..StopParams::default() },
        ..RequestParts::text(prompt, 300)
    };
    let handles: Vec<_> = prompts.iter().map(|prompt| engine.submit(request(parts(prompt)), None)).collect();
    for handle in &handles {
        assert_eq!(collect(handle).unwrap().tokens.len(), 300);
    }
    let stats = settled(&engine);
    assert!(stats.preemptions > 0);
    assert!(stats.preemptions < 100, "{} preemptions: nobody moved", stats.preemptions);
}

#[test]
fn running_streams_flow_while_a_long_prompt_comes_in() {
    let setup = FakeEngine {
        limits: fake::limits(8, 1 << 16, KvLayout::PerSequence, 8 << 16),
        ..FakeEngine::default()
    };
    let engine = setup.start();
    let stopping = StopParams { max_tokens: Some(60_000), ignore_eos: true, ..StopParams::default() };
    let stream =
        engine.submit(request(RequestParts { stopping, ..RequestParts::text("stream", 60_000) }), None);
    wait_for_delta(&stream);
    let before = engine.stats();
    let parts = RequestParts { prefill_step_size: Some(10), ..RequestParts::text("p".repeat(2000), 1) };
    let long = collect(&engine.submit(request(parts), None)).unwrap();
    let after = settled(&engine);
    assert_eq!(long.finished.reason, FinishReason::Length);
    // Between two of the 200 chunks of the prompt the stream had its token.
    let (steps, tokens) = (after.steps - before.steps, after.completion_tokens - before.completion_tokens);
    assert!(steps >= 399, "{steps} steps, {tokens} tokens");
    assert!(2 * (after.completion_tokens - before.completion_tokens) >= after.steps - before.steps);
}

#[test]
fn a_seed_gives_the_same_text_alone_and_in_a_batch() {
    let engine = FakeEngine::default().start();
    let seeded = |seed| {
        let sampling = SamplingParams { temperature: 1.5, seed: Some(seed), ..SamplingParams::default() };
        request(RequestParts { sampling, ..RequestParts::text("seeded", 40) })
    };
    let alone = collect(&engine.submit(seeded(7), None)).unwrap();
    assert_eq!(alone.finished.seed, 7);
    let handles: Vec<_> = (0..8).map(|_| engine.submit(seeded(7), None)).collect();
    for handle in &handles {
        assert_eq!(collect(handle).unwrap().tokens, alone.tokens);
    }
    assert_ne!(collect(&engine.submit(seeded(8), None)).unwrap().tokens, alone.tokens);
}

#[test]
fn a_prompt_is_computed_in_chunks_and_then_a_row_for_each_token() {
    let setup = FakeEngine::default();
    let engine = setup.start();
    let parts = RequestParts { prefill_step_size: Some(4), ..RequestParts::text("seven..", 3) };
    let output = collect(&engine.submit(request(parts), None)).unwrap();
    assert_eq!(output.tokens.len(), 3);
    assert_eq!(setup.trace.lines(), ["A:prefill[0..4]", "A:prefill[4..7]", "A:decode", "A:decode"]);
}

/// Many more tokens than the fake model's.
struct Wide;

impl Vocabulary for Wide {
    fn size(&self) -> usize {
        60_000
    }

    fn tokenize(&self, text: &str, add_special: bool, parse_special: bool) -> Result<Vec<TokenId>, Error> {
        FakeVocabulary.tokenize(text, add_special, parse_special)
    }

    fn piece(&self, token: TokenId, render_special: bool) -> &[u8] {
        if token.0 < 258 { FakeVocabulary.piece(token, render_special) } else { b"word " }
    }

    fn max_piece_bytes(&self) -> usize {
        5
    }

    fn end_of_generation(&self) -> &[TokenId] {
        FakeVocabulary.end_of_generation()
    }
}

#[test]
fn several_threads_draw_what_one_draws() {
    let sampling = |index: usize| SamplingParams {
        temperature: [0.0, 0.8, 1.2][index % 3],
        top_p: if index.is_multiple_of(2) { 0.95 } else { 1.0 },
        top_k: if index % 5 == 1 { 40 } else { 0 },
        repetition_penalty: if index % 4 == 3 { 1.2 } else { 1.0 },
        no_repeat_ngram_size: if index % 6 == 5 { 2 } else { 0 },
        seed: Some(index as u64),
        ..SamplingParams::default()
    };
    let outputs = |num_threads| {
        let limits = ContextLimits { num_threads, ..fake::limits(16, 512, KvLayout::PerSequence, 16 * 512) };
        let setup = FakeEngine { limits, vocabulary: Arc::new(Wide), ..FakeEngine::default() };
        let engine = setup.start();
        let submit = |index| {
            let parts = RequestParts { sampling: sampling(index), ..RequestParts::text(prompt(index), 20) };
            engine.submit(request(parts), None)
        };
        let handles: Vec<RequestHandle> = (0..16).map(submit).collect();
        handles
            .iter()
            .map(|handle| collect(handle).unwrap())
            .map(|output| (output.tokens, output.text))
            .collect()
    };
    let alone: Vec<(Vec<TokenId>, String)> = outputs(1);
    assert_eq!(outputs(4), alone);
    assert!(alone.iter().any(|(tokens, _)| tokens.iter().any(|token| token.0 >= 258)));
}
