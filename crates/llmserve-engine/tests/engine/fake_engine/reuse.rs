//! Cells that exist are used again, and never show in the text.

use llmserve_engine::model::fake::{self, Memory};
use llmserve_engine::*;

use super::{assert_expected, prompt, run_all, settled};
use crate::common::{FakeEngine, Output, collect, greedy, request};

#[test]
fn a_shared_preamble_is_computed_once() {
    let setup = FakeEngine {
        limits: fake::limits(16, 2048, KvLayout::PerSequence, 16 * 2048),
        ..FakeEngine::default()
    };
    let engine = setup.start();
    let preamble = "All sixteen share these words. ".repeat(30);
    let prompts: Vec<String> = (0..16).map(|index| format!("{preamble}Question {index}?")).collect();
    let outputs = run_all(&engine, &prompts, 8);
    let total: usize = prompts.iter().map(String::len).sum();
    let cached: usize = outputs.iter().map(|output| output.finished.usage.num_cached_tokens).sum();
    let own = "Question 10?".len();
    // One computes the preamble; each computes its own question and at most the few tokens that
    // follow where the texts part.
    assert!(total - cached <= preamble.len() + 16 * own, "{} tokens were computed", total - cached);
    assert_eq!(outputs.iter().filter(|output| output.finished.usage.num_cached_tokens == 0).count(), 1);
}

#[test]
fn a_recurrent_state_is_shared_where_the_prompts_part() {
    let setup = FakeEngine {
        limits: fake::limits(8, 1 << 16, KvLayout::PerSequence, 8 << 16),
        memory: Memory::Recurrent,
        ..FakeEngine::default()
    };
    let engine = setup.start();
    // Long and in small chunks, so that the first has not passed the border when the others come.
    let preamble = "shared ".repeat(5000);
    let prompts: Vec<String> = (0..4).map(|index| format!("{preamble}{index} and its own end")).collect();
    let parts = |text: &String| RequestParts { prefill_step_size: Some(4), ..RequestParts::text(text, 8) };
    let handles: Vec<_> = prompts.iter().map(|text| engine.submit(request(parts(text)), None)).collect();
    let outputs: Vec<Output> = handles.iter().map(|handle| collect(handle).unwrap()).collect();
    for (output, text) in outputs.iter().zip(&prompts) {
        assert_expected(output, text, 8);
    }
    let cached: Vec<usize> = outputs.iter().map(|output| output.finished.usage.num_cached_tokens).collect();
    // The last few tokens before the border are not worth waiting for.
    let num_shared = cached.iter().filter(|&&cached| cached + 16 > preamble.len()).count();
    assert_eq!(num_shared, 3, "{cached:?}");
}

#[test]
fn a_repeated_prompt_prefills_one_token() {
    let engine = FakeEngine::default().start();
    let text = prompt(3);
    for (round, cached) in [(0, 0), (1, text.len() - 1), (2, text.len() - 1)] {
        let output = collect(&engine.submit(greedy(&text, 20), None)).unwrap();
        assert_expected(&output, &text, 20);
        assert_eq!(output.finished.usage.num_cached_tokens, cached, "round {round}");
        assert_eq!(output.finished.usage.num_prompt_tokens, text.len());
    }
}

#[test]
fn what_a_cache_cannot_cut_back_comes_from_a_checkpoint_or_is_computed_again() {
    for memory in [Memory::SlidingWindow(4), Memory::Recurrent] {
        for parking_bytes in [0, 1 << 20] {
            let scheduler = SchedulerConfig { parking_bytes, ..SchedulerConfig::default() };
            let setup = FakeEngine { memory, scheduler, ..FakeEngine::default() };
            let engine = setup.start();
            let text = prompt(3);
            let first = collect(&engine.submit(greedy(&text, 20), None)).unwrap();
            for _ in 0..3 {
                let again = collect(&engine.submit(greedy(&text, 20), None)).unwrap();
                assert_eq!(again.tokens, first.tokens);
                let cached = if parking_bytes == 0 { 0 } else { text.len() - 1 };
                assert_eq!(again.finished.usage.num_cached_tokens, cached);
            }
            // A conversation that goes on extends the whole state, which every kind can.
            let longer = format!("{text}{}", first.text);
            let computed = first.tokens.len() - 1;
            let output = collect(&engine.submit(greedy(&format!("{longer} more"), 20), None)).unwrap();
            assert_eq!(output.finished.usage.num_cached_tokens, text.len() + computed);
            assert_expected(&output, &format!("{longer} more"), 20);
        }
    }
}

#[test]
fn evicted_prefixes_come_back_from_host_memory() {
    let setup =
        FakeEngine { limits: fake::limits(1, 512, KvLayout::PerSequence, 512), ..FakeEngine::default() };
    let engine = setup.start();
    let (a, b) = (format!("a{}", prompt(5)), format!("b{}", prompt(6)));
    for text in [&a, &b] {
        collect(&engine.submit(greedy(text, 5), None)).unwrap();
    }
    let output = collect(&engine.submit(greedy(&a, 5), None)).unwrap();
    assert_eq!(output.finished.usage.num_cached_tokens, a.len() - 1);
    assert_expected(&output, &a, 5);
}

#[test]
fn without_cache_prompt_nothing_is_reused_or_left() {
    let engine = FakeEngine::default().start();
    let text = prompt(2);
    for _ in 0..2 {
        let parts = RequestParts { cache_prompt: false, ..RequestParts::text(&text, 5) };
        let output = collect(&engine.submit(request(parts), None)).unwrap();
        assert_eq!(output.finished.usage.num_cached_tokens, 0);
    }
    assert_eq!(settled(&engine).num_used_cells, 0);
}

#[test]
fn the_tokens_that_have_cells_are_listed() {
    let limits = fake::limits(1, 1000, KvLayout::PerSequence, 1000);
    let engine = FakeEngine { limits, ..FakeEngine::default() }.start();
    assert_eq!(engine.cached_tokens(None).wait(), Ok(CachedTokens::default()));
    let (first, second) = (prompt(3), prompt(4));
    let mut texts = Vec::new();
    for text in [&first, &second] {
        let output = collect(&engine.submit(greedy(text, 4), None)).unwrap();
        let tokens = text.bytes().map(|byte| TokenId(i32::from(byte))).chain(output.tokens);
        texts.push(tokens.collect::<Vec<_>>());
    }
    let cached = engine.cached_tokens(None).wait().unwrap();
    let ([in_slot], [parked]) = (&cached.in_slots[..], &cached.parked[..]) else {
        panic!("one slot, and what was in it before: {cached:?}");
    };
    // The last token has no cell yet.
    assert_eq!(in_slot[..], texts[1][..texts[1].len() - 1]);
    assert_eq!(parked[..], texts[0][..texts[0].len() - 1]);
}

#[test]
fn cells_that_others_cannot_use_are_not_listed() {
    for memory in [Memory::SlidingWindow(4), Memory::Recurrent] {
        let engine = FakeEngine { memory, ..FakeEngine::default() }.start();
        run_all(&engine, &[prompt(3)], 4);
        assert_eq!(engine.cached_tokens(None).wait(), Ok(CachedTokens::default()));
    }
    let engine = FakeEngine::default().start();
    let parts = RequestParts { cache_prompt: false, ..RequestParts::text(prompt(3), 4) };
    collect(&engine.submit(request(parts), None)).unwrap();
    assert_eq!(engine.cached_tokens(None).wait(), Ok(CachedTokens::default()));
}
