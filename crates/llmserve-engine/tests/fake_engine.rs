//! The engine through its public API, on the deterministic fake model.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that fails panics")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{FakeEngine, Fault, Output, collect, expected_tokens, greedy, request, wait_for_delta};
use llmserve_engine::model::fake::{self, Memory};
use llmserve_engine::*;

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

/// The engine publishes its stats after the step whose events a test has seen.
fn stats_when(engine: &Engine, is_reached: impl Fn(&Stats) -> bool) -> Stats {
    for _ in 0..10_000 {
        let stats = engine.stats();
        if is_reached(&stats) {
            return stats;
        }
        std::thread::yield_now();
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
    panic!("not reached: {:?}", engine.stats());
}

#[test]
fn thirty_two_streams_at_once_give_the_text_of_each_alone() {
    for memory in KINDS {
        let setup = FakeEngine { memory, ..FakeEngine::default() };
        let engine = setup.start();
        let prompts: Vec<String> = (0..32).map(prompt).collect();
        run_all(&engine, &prompts, 100);
        stats_when(&engine, |stats| stats.num_running == 0);
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
            let stats = stats_when(&engine, |stats| stats.num_running == 0);
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
    let stats = stats_when(&engine, |stats| stats.num_running == 0);
    assert!(stats.preemptions > 0);
    assert!(stats.preemptions < 100, "{} preemptions: nobody moved", stats.preemptions);
}

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
    assert_eq!(stats_when(&engine, |stats| stats.num_running == 0).num_used_cells, 0);
}

/// Guesses what the model will say, wrong at every `period`-th token.
struct Scripted {
    prompt_len: usize,
    script: Vec<TokenId>,
    period: usize,
}

impl Drafter for Scripted {
    fn draft(&mut self, tokens: &[TokenId], max: usize) -> Vec<TokenId> {
        let position = tokens.len() - self.prompt_len;
        let guess = |(index, &token): (usize, &TokenId)| {
            if (position + index) % self.period == self.period - 1 { TokenId(token.0 ^ 1) } else { token }
        };
        self.script.iter().skip(position).enumerate().map(guess).take(max.min(4)).collect()
    }
}

#[test]
fn drafts_change_neither_text_nor_counts_on_any_kind_of_cache() {
    for memory in KINDS {
        for layout in [KvLayout::PerSequence, KvLayout::Unified] {
            let setup =
                FakeEngine { limits: fake::limits(8, 512, layout, 8 * 512), memory, ..FakeEngine::default() };
            let engine = setup.start();
            let handles: Vec<(String, RequestHandle)> = (0..12)
                .map(|index| {
                    let text = prompt(index);
                    let drafter: Box<dyn Drafter> = Box::new(Scripted {
                        prompt_len: text.len(),
                        script: expected_tokens(&text, 60),
                        period: 2 + index % 5,
                    });
                    let drafter = (index % 3 != 0).then_some(drafter);
                    let handle = engine.submit(Submission { drafter, ..greedy(&text, 60).into() }, None);
                    (text, handle)
                })
                .collect();
            for (index, (text, handle)) in handles.iter().enumerate() {
                let output = collect(handle).unwrap();
                assert_expected(&output, text, 60);
                let (drafted, accepted) = simulate_drafting(output.tokens.len(), 60, 2 + index % 5, text);
                let usage = output.finished.usage;
                let simulated = if index % 3 == 0 { (0, 0) } else { (drafted, accepted) };
                let counted = (usage.num_draft_tokens, usage.num_accepted_tokens);
                match memory {
                    // A state that cannot be cut back is computed again, which draws undrafted tokens.
                    Memory::Recurrent => assert!(counted.1 <= counted.0, "{text}"),
                    Memory::Attention | Memory::SlidingWindow(_) => {
                        assert_eq!(counted, simulated, "{memory:?} {text}");
                    }
                }
            }
        }
    }
}

/// Drafted and accepted tokens that the scripted drafter must give: four guesses a step at most,
/// accepted up to the first wrong one.
fn simulate_drafting(len: usize, max_tokens: usize, period: usize, text: &str) -> (usize, usize) {
    let script_len = expected_tokens(text, 60).len();
    let (mut done, mut drafted, mut accepted) = (1, 0, 0);
    while done < len {
        let count = (script_len - done).min(4).min(max_tokens - done - 1);
        let right = (0..count).take_while(|index| (done + index) % period != period - 1).count();
        // The end of the text is not a guess that could be followed.
        let right = right.min(len - done - 1);
        drafted += count;
        accepted += right;
        done += right + 1;
    }
    (drafted, accepted)
}

#[test]
fn abort_ends_a_request_in_every_phase_and_nobody_else() {
    let setup = FakeEngine {
        limits: fake::limits(2, 1 << 20, KvLayout::PerSequence, 2 << 20),
        ..FakeEngine::default()
    };
    let engine = setup.start();
    let endless = |prompt: &str| {
        let stopping = StopParams { max_tokens: Some(1_000_000), ignore_eos: true, ..StopParams::default() };
        request(RequestParts { stopping, ..RequestParts::text(prompt, 1_000_000) })
    };
    let decoding = engine.submit(endless("decoding"), None);
    let other = engine.submit(endless("other"), None);
    wait_for_delta(&decoding);
    wait_for_delta(&other);
    let queued = engine.submit(endless("queued"), None);
    queued.abort();
    let output = collect(&queued).unwrap();
    assert_eq!((output.finished.reason, output.tokens.len()), (FinishReason::Cancelled, 0));
    decoding.abort();
    assert_eq!(collect(&decoding).unwrap().finished.reason, FinishReason::Cancelled);
    // Its slot is free at once.
    let next = collect(&engine.submit(greedy("next", 10), None)).unwrap();
    assert_expected(&next, "next", 10);
    drop(other);
    let stats = stats_when(&engine, |stats| stats.num_running == 0);
    assert_eq!((stats.requests_cancelled, stats.requests_failed), (3, 0));
}

#[test]
fn a_prompt_can_be_aborted_between_chunks() {
    let setup = FakeEngine {
        limits: fake::limits(2, 1 << 20, KvLayout::PerSequence, 2 << 20),
        ..FakeEngine::default()
    };
    let engine = setup.start();
    let parts = RequestParts { prefill_step_size: Some(1), ..RequestParts::text("x".repeat(500_000), 5) };
    let handle = engine.submit(request(parts), None);
    while !matches!(handle.recv(), Some(Event::Started { .. })) {}
    handle.abort();
    let output = collect(&handle).unwrap();
    assert_eq!((output.finished.reason, output.tokens.len()), (FinishReason::Cancelled, 0));
    let stats = stats_when(&engine, |stats| stats.num_running == 0);
    assert!(stats.rows < 500_000);
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
    let after = stats_when(&engine, |stats| stats.requests_length == 1);
    assert_eq!(long.finished.reason, FinishReason::Length);
    // Between two chunks of the prompt the stream had its token.
    assert!(after.steps - before.steps >= 400);
    assert!(2 * (after.completion_tokens - before.completion_tokens) >= after.steps - before.steps);
}

#[test]
fn a_failing_decode_fails_the_sequences_in_it_and_the_engine_goes_on() {
    let setup = FakeEngine::default();
    let engine = setup.start();
    setup.fault.next_decode(-3);
    let failed = collect(&engine.submit(greedy("first", 5), None)).unwrap_err();
    assert_eq!(failed, Error::DecodeFailed { code: -3 });
    let output = collect(&engine.submit(greedy("second", 5), None)).unwrap();
    assert_expected(&output, "second", 5);
    assert_eq!(engine.stats().requests_failed, 1);
    assert_eq!(engine.dead_reason(), None);
}

#[test]
fn a_panic_in_the_engine_thread_ends_every_request_and_says_so() {
    let setup = FakeEngine::default();
    let engine = setup.start();
    setup.fault.next_decode(Fault::PANIC);
    let handles: Vec<_> = (0..4).map(|index| engine.submit(greedy(&prompt(index), 50), None)).collect();
    for handle in &handles {
        assert_eq!(collect(handle).unwrap_err().code(), "engine_dead");
    }
    assert!(engine.dead_reason().is_some());
    assert_eq!(collect(&engine.submit(greedy("later", 5), None)).unwrap_err().code(), "engine_dead");
    engine.shutdown();
    engine.join();
}

#[test]
fn shutdown_ends_waiting_and_running_requests() {
    let setup = FakeEngine {
        limits: fake::limits(1, 1 << 20, KvLayout::PerSequence, 1 << 20),
        ..FakeEngine::default()
    };
    let engine = setup.start();
    let stopping = StopParams { max_tokens: Some(1_000_000), ignore_eos: true, ..StopParams::default() };
    let parts = RequestParts { stopping, ..RequestParts::text("running", 1_000_000) };
    let running = engine.submit(request(parts.clone()), None);
    // One after the other: prepare threads may overtake each other, and there is one slot.
    wait_for_delta(&running);
    let waiting = engine.submit(request(parts), None);
    engine.shutdown();
    assert_eq!(collect(&running).unwrap_err(), Error::ShutDown);
    assert_eq!(collect(&waiting).unwrap_err(), Error::ShutDown);
    engine.join();
    assert_eq!(collect(&engine.submit(greedy("later", 5), None)).unwrap_err(), Error::ShutDown);
    assert_eq!(engine.tokenize("text".to_owned(), true, Special::Control, None).wait(), Err(Error::ShutDown));
}

#[test]
fn the_queue_is_bounded_and_drains() {
    let setup = FakeEngine {
        limits: fake::limits(1, 512, KvLayout::PerSequence, 512),
        scheduler: SchedulerConfig { max_queued_requests: 4, ..SchedulerConfig::default() },
        ..FakeEngine::default()
    };
    let engine = setup.start();
    let handles: Vec<_> = (0..200).map(|index| engine.submit(greedy(&prompt(index), 50), None)).collect();
    let mut refused = 0;
    for handle in &handles {
        match collect(handle) {
            Ok(_) => {}
            Err(Error::QueueFull { limit: 4, unit: "requests", retry_after }) => {
                assert!(retry_after.as_secs() >= 1);
                refused += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refused > 0);
    let stats = stats_when(&engine, |stats| stats.num_running == 0);
    assert_eq!(stats.requests_refused, refused);
    assert_eq!(stats.requests_accepted, 200 - refused);
    collect(&engine.submit(greedy("again", 5), None)).unwrap();
}

#[test]
fn prompts_that_do_not_fit_are_refused_with_the_numbers() {
    let engine = FakeEngine::default().start();
    for len in [512, 562] {
        let error = collect(&engine.submit(greedy(&"x".repeat(len), 5), None)).unwrap_err();
        assert_eq!(error, Error::ContextExceeded { prompt_tokens: len, context_length: 512 });
    }
    let error = collect(&engine.submit(greedy(&"x".repeat(2000), 5), None)).unwrap_err();
    assert_eq!(error, Error::TextTooLong { fewest_tokens: 2000, context_length: 512 });
    // One token less leaves room for one.
    let output = collect(&engine.submit(greedy(&"x".repeat(511), 5), None)).unwrap();
    assert_eq!(output.tokens.len(), 1);
    assert_eq!(collect(&engine.submit(greedy("", 5), None)).unwrap_err(), Error::EmptyPrompt);
    let unknown = RequestParts::tokens(vec![TokenId(1), TokenId(9999)], 5);
    assert_eq!(collect(&engine.submit(request(unknown), None)).unwrap_err().code(), "invalid_parameter");
}

#[test]
fn the_context_length_ends_a_generation_without_a_limit() {
    let engine = FakeEngine::default().start();
    let stopping = StopParams { ignore_eos: true, ..StopParams::default() };
    let parts = RequestParts { stopping, ..RequestParts::text("free", 1) };
    let output = collect(&engine.submit(request(parts), None)).unwrap();
    assert_eq!(output.finished.reason, FinishReason::Length);
    assert_eq!(output.tokens.len(), 512 - "free".len());
}

#[test]
fn a_total_limit_counts_prompt_and_output() {
    let engine = FakeEngine::default().start();
    let limited = |max_total_tokens| {
        let stopping = StopParams {
            ignore_eos: true,
            max_total_tokens: Some(max_total_tokens),
            ..StopParams::default()
        };
        request(RequestParts { stopping, ..RequestParts::text("four", 1) })
    };
    let count = |limit| collect(&engine.submit(limited(limit), None)).map(|output| output.tokens.len());
    assert_eq!(count(10), Ok(6));
    assert_eq!(count(4), Ok(0));
    assert_eq!(count(3), Err(Error::ContextExceeded { prompt_tokens: 4, context_length: 3 }));
}

#[test]
fn a_stop_string_ends_the_text_before_it() {
    let engine = FakeEngine::default().start();
    let text: String =
        expected_tokens("stop here", 40).iter().map(|token| char::from(token.0 as u8)).collect();
    let stop = text[10..14].to_owned();
    let end = text.find(&stop).unwrap();
    let stopping = StopParams { max_tokens: Some(40), stop: vec![stop.clone()], ..StopParams::default() };
    let handle =
        engine.submit(request(RequestParts { stopping, ..RequestParts::text("stop here", 40) }), None);
    let output = collect(&handle).unwrap();
    assert_eq!(output.text, text[..end]);
    assert_eq!((output.finished.reason, output.finished.stop), (FinishReason::Stop, Some(stop)));
}

#[test]
fn a_held_tail_is_released_at_the_end() {
    let engine = FakeEngine::default().start();
    let text: String = expected_tokens("held", 12).iter().map(|token| char::from(token.0 as u8)).collect();
    let stop = format!("{}and more", &text[text.len() - 3..]);
    let stopping = StopParams { max_tokens: Some(12), stop: vec![stop], ..StopParams::default() };
    let handle = engine.submit(request(RequestParts { stopping, ..RequestParts::text("held", 12) }), None);
    let output = collect(&handle).unwrap();
    assert_eq!((output.text, output.finished.reason), (text, FinishReason::Length));
}

#[test]
fn min_tokens_puts_the_end_off() {
    let engine = FakeEngine::default().start();
    let (text, natural) = (0..200)
        .map(|index| (prompt(index), expected_tokens(&prompt(index), 60).len()))
        .find(|(_, len)| (2..20).contains(len))
        .expect("some prompt ends early");
    let stopping =
        StopParams { max_tokens: Some(60), min_tokens: natural as u32 + 3, ..StopParams::default() };
    let output =
        collect(&engine.submit(request(RequestParts { stopping, ..RequestParts::text(&text, 60) }), None))
            .unwrap();
    assert!(output.tokens.len() > natural + 2);
    assert_eq!(output.tokens[..natural - 1], expected_tokens(&text, 60)[..natural - 1]);
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

/// Counts notifications and wake-ups.
#[derive(Default)]
struct Counter {
    ready: AtomicUsize,
    flushes: AtomicUsize,
}

impl Notify for Counter {
    fn ready(&self, _key: u64) {
        self.ready.fetch_add(1, Ordering::SeqCst);
    }
    fn flush(&self) {
        self.flushes.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_step_wakes_its_receiver_once() {
    let engine = FakeEngine::default().start();
    let counter = Arc::new(Counter::default());
    let listener = |key| Some(Listener { notify: Arc::clone(&counter) as Arc<dyn Notify>, key });
    let stopping = StopParams { max_tokens: Some(200), ignore_eos: true, ..StopParams::default() };
    let parts = RequestParts { stopping, ..RequestParts::text("wake", 200) };
    let handles: Vec<_> = (0..8).map(|key| engine.submit(request(parts.clone()), listener(key))).collect();
    for handle in &handles {
        assert_eq!(collect(handle).unwrap().tokens.len(), 200);
    }
    let stats = stats_when(&engine, |stats| stats.num_running == 0);
    engine.shutdown();
    engine.join();
    let (ready, flushes) = (counter.ready.load(Ordering::SeqCst), counter.flushes.load(Ordering::SeqCst));
    assert!(ready >= 8 * 200, "{ready}");
    // One a step and one for each acceptance.
    assert!(flushes <= stats.steps as usize + 2 * 8, "{flushes} wake-ups in {} steps", stats.steps);
}

#[test]
fn delivery_at_the_end_wakes_for_acceptance_and_end_only() {
    let engine = FakeEngine::default().start();
    let counter = Arc::new(Counter::default());
    let listener = Listener { notify: Arc::clone(&counter) as Arc<dyn Notify>, key: 1 };
    let parts = RequestParts { delivery: Delivery::AtEnd, ..RequestParts::text("quiet", 30) };
    let handle = engine.submit(request(parts), Some(listener));
    let output = collect(&handle).unwrap();
    assert_expected(&output, "quiet", 30);
    // The engine thread tells after it has put the event in.
    engine.shutdown();
    engine.join();
    assert_eq!(counter.ready.load(Ordering::SeqCst), 2);
}
