//! Drafting with the model's own head and by prompt lookup, through the public API, on the fake model.

use std::time::{Duration, Instant};

use llmserve_engine::model::fake::{self, END, Memory};
use llmserve_engine::*;

use crate::common::{FakeEngine, Output, collect, expected_tokens, request, wait_for_delta};

const CACHES: [Memory; 2] = [Memory::Attention, Memory::SlidingWindow(64)];
const LAYOUTS: [KvLayout; 2] = [KvLayout::PerSequence, KvLayout::Unified];

fn with_head(memory: Memory, layout: KvLayout) -> FakeEngine {
    let limits = fake::limits(8, 512, layout, 8 * 512);
    FakeEngine { limits, memory, has_head: true, ..FakeEngine::default() }
}

fn head_of(engine: &Engine) -> Head {
    engine.open_head(None).wait().unwrap()
}

/// How a request drafts, and what holds the head open for it.
type By = (Drafting, Option<Head>);

fn by_head(head: &Head, draft_len: usize) -> By {
    (Drafting { method: DraftMethod::Head, draft_len, adaptive: false }, Some(head.clone()))
}

fn by_lookup(draft_len: usize) -> By {
    (Drafting { method: DraftMethod::PromptLookup, draft_len, adaptive: false }, None)
}

fn submit(engine: &Engine, prompt: &str, max_tokens: u32, by: impl Into<Option<By>>) -> RequestHandle {
    submit_parts(engine, RequestParts::text(prompt, max_tokens), by)
}

fn submit_parts(engine: &Engine, parts: RequestParts, by: impl Into<Option<By>>) -> RequestHandle {
    let (drafting, head) = by.into().unzip();
    let request = request(RequestParts { drafting, ..parts });
    engine.submit(Submission { head: head.flatten(), ..request.into() }, None)
}

fn counts(output: &Output) -> (usize, usize) {
    let usage = output.finished.usage;
    (usage.num_draft_tokens, usage.num_accepted_tokens)
}

/// Drafted and accepted tokens of a greedy answer, the first token undrafted.
fn simulate(history: &[TokenId], answer: &[TokenId], max_tokens: usize, draft_len: usize) -> (usize, usize) {
    let mut history = history.to_vec();
    history.push(answer[0]);
    let (mut done, mut drafted, mut accepted) = (1, 0, 0);
    while done < answer.len() {
        let mut draft = Vec::new();
        while draft.len() < draft_len.min(max_tokens - done - 1) && draft.last() != Some(&END) {
            let next = fake::drafted_after(&[&history[..], &draft].concat());
            draft.push(next);
        }
        let right = draft.iter().zip(&answer[done..]).take_while(|(guess, token)| guess == token).count();
        // Nothing follows an end.
        let right = right.min(answer.len() - done - 1);
        drafted += draft.len();
        accepted += right;
        history.extend(&answer[done..=done + right]);
        done += right + 1;
    }
    (drafted, accepted)
}

fn ids(text: &str) -> Vec<TokenId> {
    text.bytes().map(|byte| TokenId(i32::from(byte))).collect()
}

fn stats_when(engine: &Engine, is_so: impl Fn(&Stats) -> bool) -> Stats {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let stats = engine.stats();
        if is_so(&stats) {
            return stats;
        }
        assert!(Instant::now() < deadline, "{stats:?}");
        std::thread::yield_now();
    }
}

#[test]
fn head_drafts_change_no_text_and_count_as_simulated() {
    for (memory, layout) in CACHES.into_iter().flat_map(|memory| LAYOUTS.map(|layout| (memory, layout))) {
        let engine = with_head(memory, layout).start();
        let head = head_of(&engine);
        for draft_len in [1, 2, 3, 5, 8] {
            let prompts: Vec<String> =
                (0..16).map(|index| format!("{draft_len} drafts of prompt {index}")).collect();
            // Some draft and some do not, and more wait than there are slots.
            let drafting = |index: usize| (index % 4 != 3).then(|| by_head(&head, draft_len));
            let handles: Vec<RequestHandle> = prompts
                .iter()
                .enumerate()
                .map(|(index, prompt)| submit(&engine, prompt, 40 + index as u32, drafting(index)))
                .collect();
            for (index, (prompt, handle)) in prompts.iter().zip(&handles).enumerate() {
                let output = collect(handle).unwrap();
                assert_eq!(output.tokens, expected_tokens(prompt, 40 + index));
                let simulated = simulate(&ids(prompt), &output.tokens, 40 + index, draft_len);
                let expected = if index % 4 == 3 { (0, 0) } else { simulated };
                assert_eq!(counts(&output), expected, "{memory:?} {layout:?} {prompt}");
            }
        }
    }
}

#[test]
fn the_draft_context_lives_as_long_as_somebody_drafts_with_it() {
    let engine = with_head(Memory::Attention, KvLayout::PerSequence).start();
    let first = head_of(&engine);
    let second = head_of(&engine);
    assert_eq!(stats_when(&engine, |stats| stats.num_draft_users == 2).num_draft_users, 2);
    drop(first);
    let handle = submit(&engine, "a request holds it", 30, by_head(&second, 3));
    drop(second);
    assert!(counts(&collect(&handle).unwrap()).0 > 0);
    stats_when(&engine, |stats| stats.num_draft_users == 0);
    // A job that nobody waits for gives it back.
    drop(engine.open_head(None));
    stats_when(&engine, |stats| stats.num_draft_users == 0);
}

#[test]
fn a_prefix_from_before_the_draft_context_is_not_drafted_on_until_it_is_computed_again() {
    let engine = with_head(Memory::Attention, KvLayout::PerSequence).start();
    let text = "cells from before the draft context was there, and so not in it";
    collect(&submit(&engine, text, 1, None)).unwrap();
    let head = head_of(&engine);
    let drafting = || by_head(&head, 4);
    let undrafted = collect(&submit(&engine, text, 30, drafting())).unwrap();
    assert!(undrafted.finished.usage.num_cached_tokens > 0);
    assert_eq!((counts(&undrafted), undrafted.tokens), ((0, 0), expected_tokens(text, 30)));
    let uncached = RequestParts { cache_prompt: false, ..RequestParts::text(text, 30) };
    let drafted = collect(&submit_parts(&engine, uncached, drafting())).unwrap();
    assert_eq!(counts(&drafted), simulate(&ids(text), &drafted.tokens, 30, 4));
}

#[test]
fn cells_without_drafts_that_save_little_are_passed_by() {
    let setup = with_head(Memory::Attention, KvLayout::PerSequence);
    let engine = FakeEngine { limits: fake::limits(1, 512, KvLayout::PerSequence, 512), ..setup }.start();
    // One goes to host memory, one stays in its slot.
    for text in [
        "The first, long enough to be parked when its slot is taken",
        "A second, likewise of some length, before the head",
    ] {
        collect(&submit(&engine, text, 1, None)).unwrap();
    }
    let head = head_of(&engine);
    for text in ["The first with drafts", "A second with drafts, and much of its own"] {
        let output = collect(&submit(&engine, text, 30, by_head(&head, 4))).unwrap();
        assert_eq!(output.finished.usage.num_cached_tokens, 0);
        assert_eq!(counts(&output), simulate(&ids(text), &output.tokens, 30, 4));
    }
}

#[test]
fn cells_of_others_are_drafted_on_wherever_they_come_from() {
    for (memory, layout) in CACHES.into_iter().flat_map(|memory| LAYOUTS.map(|layout| (memory, layout))) {
        let engine = with_head(memory, layout).start();
        let head = head_of(&engine);
        let shared = "a prefix that all of them share, long enough to be copied: ";
        // The first does not draft: its cells are followed all the same.
        collect(&submit(&engine, &format!("{shared}0"), 1, None)).unwrap();
        let prompts: Vec<String> = (1..=12).map(|index| format!("{shared}{index}")).collect();
        let submit_one = |prompt: &String| submit(&engine, prompt, 30, by_head(&head, 3));
        let handles: Vec<RequestHandle> = prompts.iter().map(submit_one).collect();
        for (prompt, handle) in prompts.iter().zip(&handles) {
            let output = collect(handle).unwrap();
            assert_eq!(output.tokens, expected_tokens(prompt, 30));
            assert_eq!(
                counts(&output),
                simulate(&ids(prompt), &output.tokens, 30, 3),
                "{memory:?} {layout:?}"
            );
        }
        assert!(engine.stats().cached_tokens > 0);
    }
}

#[test]
fn preempted_sequences_come_back_and_draft() {
    let setup = FakeEngine {
        limits: fake::limits(6, 200, KvLayout::Unified, 420),
        has_head: true,
        ..FakeEngine::default()
    };
    let engine = setup.start();
    let head = head_of(&engine);
    let prompts: Vec<String> = (0..6).map(|index| format!("prompt {index} of several")).collect();
    let endless = |prompt: &String| {
        let mut parts = RequestParts::text(prompt, 120);
        parts.stopping.ignore_eos = true;
        submit_parts(&engine, parts, by_head(&head, 3))
    };
    let handles: Vec<RequestHandle> = prompts.iter().map(endless).collect();
    for handle in &handles {
        let output = collect(handle).unwrap();
        assert_eq!(output.tokens.len(), 120);
        assert!(counts(&output).1 > 0);
    }
    let stats = stats_when(&engine, |stats| stats.num_running == 0);
    assert!(stats.preemptions > 0, "{stats:?}");
    // Alone, with room: the same text.
    for (prompt, handle) in prompts.iter().zip([endless(&prompts[0]), endless(&prompts[1])]) {
        let again = collect(&handle).unwrap();
        let mut alone = RequestParts::text(prompt, 120);
        alone.stopping.ignore_eos = true;
        assert_eq!(again.tokens, collect(&engine.submit(request(alone), None)).unwrap().tokens);
    }
}

#[test]
fn preemption_leaves_each_sequence_its_own_draft_length() {
    let setup = FakeEngine {
        limits: fake::limits(8, 200, KvLayout::Unified, 500),
        has_head: true,
        ..FakeEngine::default()
    };
    let engine = setup.start();
    let head = head_of(&engine);
    let lengths = [1, 8, 1, 8, 1, 8, 1, 8];
    let submit = |(index, draft_len): (usize, &usize)| {
        let mut parts = RequestParts::text(format!("prompt {index} of several"), 150);
        parts.stopping.ignore_eos = true;
        submit_parts(&engine, parts, by_head(&head, *draft_len))
    };
    let handles: Vec<RequestHandle> = lengths.iter().enumerate().map(submit).collect();
    for (handle, draft_len) in handles.iter().zip(lengths) {
        let (drafted, accepted) = counts(&collect(handle).unwrap());
        // Each step gives what was accepted and one token more.
        let num_steps = 150 - accepted;
        assert!(drafted <= num_steps * draft_len, "{drafted} drafts in {num_steps} steps of {draft_len}");
    }
    assert!(stats_when(&engine, |stats| stats.num_running == 0).preemptions > 0);
}

#[test]
fn dropped_streams_leave_the_engine_idle_and_the_next_answers_right() {
    let engine = with_head(Memory::Attention, KvLayout::PerSequence).start();
    let head = head_of(&engine);
    for index in 0..20 {
        let mut parts = RequestParts::text(format!("stream {index}"), 400);
        parts.stopping.ignore_eos = true;
        let handle = submit_parts(&engine, parts, by_head(&head, 5));
        wait_for_delta(&handle);
    }
    stats_when(&engine, |stats| stats.num_running + stats.num_waiting == 0);
    for index in 0..5 {
        let text = format!("stream {index}");
        let output = collect(&submit(&engine, &text, 60, by_head(&head, 5))).unwrap();
        assert_eq!(output.tokens, expected_tokens(&text, 60));
        assert_eq!(counts(&output), simulate(&ids(&text), &output.tokens, 60, 5));
    }
}

#[test]
fn sampled_text_is_the_same_with_drafts() {
    let engine = with_head(Memory::Attention, KvLayout::PerSequence).start();
    let head = head_of(&engine);
    for seed in 0..8 {
        let sampling = SamplingParams { temperature: 0.5, seed: Some(seed), ..SamplingParams::default() };
        let sampled = |by: Option<By>| {
            let parts = RequestParts { sampling: sampling.clone(), ..RequestParts::text("sampled", 80) };
            collect(&submit_parts(&engine, parts, by)).unwrap()
        };
        let (without, with) = (sampled(None), sampled(Some(by_head(&head, 3))));
        assert_eq!(without.tokens, with.tokens);
        let (drafted, accepted) = counts(&with);
        assert!(
            with.tokens.len() < 5 || (accepted > 0 && accepted < drafted),
            "{seed}: {drafted} {accepted}"
        );
    }
}

#[test]
fn a_failing_step_fails_its_sequences_only_and_drafting_goes_on() {
    let limits = fake::limits(2, 1 << 20, KvLayout::PerSequence, 2 << 20);
    let setup = FakeEngine { limits, has_head: true, ..FakeEngine::default() };
    let engine = setup.start();
    let head = head_of(&engine);
    let mut endless = RequestParts::text("fails", 1_000_000);
    endless.stopping.ignore_eos = true;
    let handle = submit_parts(&engine, endless, by_head(&head, 3));
    wait_for_delta(&handle);
    setup.fault.next_decode(-7);
    assert_eq!(collect(&handle).unwrap_err(), Error::DecodeFailed { code: -7 });
    let output = collect(&submit(&engine, "next", 30, by_head(&head, 3))).unwrap();
    assert_eq!(counts(&output), simulate(&ids("next"), &output.tokens, 30, 3));
}

#[test]
fn what_cannot_draft_says_so() {
    let engine = FakeEngine::default().start();
    assert_eq!(engine.open_head(None).wait().unwrap_err(), Error::NoDraftHead);
    assert_eq!(engine.stats().num_draft_users, 0);
    let other = with_head(Memory::Attention, KvLayout::PerSequence).start();
    let foreign = by_head(&head_of(&other), 3);
    let error = collect(&submit(&engine, "text", 5, foreign)).unwrap_err();
    assert_eq!(error.to_string(), "drafting: must belong to the engine that it is used with");
    let without_head = (by_head(&head_of(&other), 3).0, None);
    let error = collect(&submit(&engine, "text", 5, without_head)).unwrap_err();
    assert_eq!(error.to_string(), "drafting: needs a head of the engine, which keeps the draft context open");
    for draft_len in [0, 9] {
        let drafting = Some(by_lookup(draft_len).0);
        let error = GenerationRequest::new(RequestParts { drafting, ..RequestParts::text("text", 5) });
        let expected = format!("draft_len: must be from 1 to 8, got {draft_len}");
        assert_eq!(error.unwrap_err().to_string(), expected);
    }
    let ended = head_of(&other);
    other.shutdown();
    other.join();
    drop(ended);
    assert_eq!(other.open_head(None).wait().unwrap_err(), Error::ShutDown);
}

#[test]
fn prompt_lookup_needs_no_head_and_changes_no_text() {
    let engine = FakeEngine::default().start();
    // The fake model repeats nothing by itself.
    let repeating = |by: Option<By>| {
        let mut parts = RequestParts::text("abcabc", 60);
        parts.sampling.logit_bias = vec![(TokenId(i32::from(b'a')), 100.0)];
        collect(&submit_parts(&engine, parts, by)).unwrap()
    };
    let (without, with) = (repeating(None), repeating(Some(by_lookup(4))));
    assert_eq!((&without.text, &with.text), (&"a".repeat(60), &"a".repeat(60)));
    let (drafted, accepted) = counts(&with);
    assert!(accepted > 40 && accepted <= drafted, "{drafted} {accepted}");
    let free = collect(&submit(&engine, "once more", 60, by_lookup(8))).unwrap();
    assert_eq!(free.tokens, expected_tokens("once more", 60));
}

#[test]
fn adaptive_drafts_change_no_text() {
    let engine = with_head(Memory::Attention, KvLayout::PerSequence).start();
    let drafting = || {
        let (drafting, head) = by_head(&head_of(&engine), 8);
        (Drafting { adaptive: true, ..drafting }, head)
    };
    let prompts: Vec<String> = (0..24).map(|index| format!("adaptive {index}")).collect();
    let handles: Vec<RequestHandle> =
        prompts.iter().map(|prompt| submit(&engine, prompt, 100, drafting())).collect();
    for (prompt, handle) in prompts.iter().zip(&handles) {
        assert_eq!(collect(handle).unwrap().tokens, expected_tokens(prompt, 100));
    }
}
