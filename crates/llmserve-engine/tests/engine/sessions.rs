//! Sessions through the public API, on the deterministic fake model.

use std::sync::mpsc;

use llmserve_engine::model::fake::{self, END, Memory};
use llmserve_engine::*;

use crate::common::{FakeEngine, Fault, Output, collect, in_session, wait_for_delta};

const KINDS: [Memory; 3] = [Memory::Attention, Memory::SlidingWindow(16), Memory::Recurrent];

fn ids(text: &str) -> Vec<TokenId> {
    text.bytes().map(|byte| TokenId(i32::from(byte))).collect()
}

/// The greedy tokens after a history, without the engine.
fn greedy_after(history: &[TokenId], max_tokens: usize, ignore_eos: bool) -> Vec<TokenId> {
    let mut history = history.to_vec();
    let start = history.len();
    while history.len() < start + max_tokens
        && (ignore_eos || history.last() != Some(&END) || history.len() == start)
    {
        let mut logits = fake::logits_after(&history);
        if ignore_eos {
            logits[END.0 as usize] = f32::NEG_INFINITY;
        }
        let best = (0..logits.len()).reduce(|a, b| if logits[b] > logits[a] { b } else { a }).unwrap();
        history.push(TokenId(best as i32));
    }
    history.split_off(start)
}

/// A request of a session that does not end by itself.
fn parts(prompt: &str, max_tokens: u32) -> RequestParts {
    let mut parts = RequestParts::text(prompt, max_tokens);
    parts.stopping.ignore_eos = true;
    parts
}

/// A request that appends to a session.
fn appending(session: &Session, parts: RequestParts) -> Submission {
    in_session(parts, session, SessionMode::Append, false)
}

fn submit(engine: &Engine, session: &Session, prompt: &str, max_tokens: u32) -> RequestHandle {
    engine.submit(appending(session, parts(prompt, max_tokens)), None)
}

/// Goes on in a session and checks the tokens against its history.
fn go_on(engine: &Engine, session: &Session, prompt: &str, max_tokens: u32) -> Output {
    let mut history = session.tokens();
    history.extend(ids(prompt));
    let output = collect(&submit(engine, session, prompt, max_tokens)).unwrap();
    assert_eq!(output.tokens, greedy_after(&history, max_tokens as usize, true));
    assert_eq!(output.finished.usage.num_prompt_tokens, history.len());
    history.extend(&output.tokens);
    assert_eq!(session.tokens(), history);
    output
}

/// An engine with room for answers that never end.
fn endless() -> FakeEngine {
    FakeEngine {
        limits: fake::limits(2, 1 << 20, KvLayout::PerSequence, 2 << 20),
        scheduler: SchedulerConfig { max_queued_tokens: usize::MAX, ..SchedulerConfig::default() },
        ..FakeEngine::default()
    }
}

const ENDLESS: u32 = 1_000_000;

#[test]
fn requests_go_on_from_each_other_and_reuse_the_cells() {
    for memory in KINDS {
        let engine = FakeEngine { memory, ..FakeEngine::default() }.start();
        let session = engine.new_session();
        let first = go_on(&engine, &session, "It was a dark and stormy night. ", 20);
        assert_eq!(first.finished.usage.num_cached_tokens, 0);
        for prompt in ["And then? ", "x", ""] {
            let before = session.num_tokens();
            let output = go_on(&engine, &session, prompt, 10);
            // The last token of an output has no cell yet.
            assert_eq!(output.finished.usage.num_cached_tokens, before - 1, "{memory:?} {prompt:?}");
        }
    }
}

#[test]
fn sessions_and_single_requests_see_nothing_of_each_other() {
    for memory in KINDS {
        let setup = FakeEngine {
            memory,
            limits: fake::limits(3, 512, KvLayout::Unified, 700),
            ..FakeEngine::default()
        };
        let engine = setup.start();
        let sessions = [engine.new_session(), engine.new_session()];
        for round in 0..6 {
            let prompts = [format!("left {round} "), format!("right {round} ")];
            let histories = [0, 1].map(|side: usize| [sessions[side].tokens(), ids(&prompts[side])].concat());
            let handles = [0, 1].map(|side: usize| submit(&engine, &sessions[side], &prompts[side], 12));
            let alone = engine.submit(crate::common::greedy("nobody's ", 12), None);
            for (handle, history) in handles.iter().zip(&histories) {
                assert_eq!(collect(handle).unwrap().tokens, greedy_after(history, 12, true), "{memory:?}");
            }
            assert_eq!(collect(&alone).unwrap().tokens, crate::common::expected_tokens("nobody's ", 12));
        }
    }
}

#[test]
fn calls_run_in_the_order_in_which_they_were_made() {
    let engine = FakeEngine::default().start();
    let session = engine.new_session();
    let handles: Vec<_> = (0..20).map(|index| submit(&engine, &session, &format!("{index};"), 7)).collect();
    let reset = session.reset(None);
    let last = submit(&engine, &session, "after the reset", 5);
    let mut history = Vec::new();
    for (index, handle) in handles.iter().enumerate() {
        history.extend(ids(&format!("{index};")));
        let output = collect(handle).unwrap();
        assert_eq!(output.tokens, greedy_after(&history, 7, true), "request {index}");
        history.extend(output.tokens);
    }
    reset.wait().unwrap();
    assert_eq!(collect(&last).unwrap().tokens, greedy_after(&ids("after the reset"), 5, true));
}

#[test]
fn calls_from_many_threads_never_overlap() {
    let engine = FakeEngine::default().start();
    let session = engine.new_session();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..10 {
                    assert_eq!(collect(&submit(&engine, &session, "ab", 2)).unwrap().tokens.len(), 2);
                }
            });
        }
    });
    let tokens = session.tokens();
    assert_eq!(tokens.len(), 8 * 10 * 4);
    for end in (4..=tokens.len()).step_by(4) {
        assert_eq!(tokens[end - 4..end - 2], ids("ab"));
        assert_eq!(tokens[end - 2..end], greedy_after(&tokens[..end - 2], 2, true));
    }
}

#[test]
fn the_new_state_is_there_with_the_terminal_event() {
    let engine = FakeEngine::default().start();
    let session = engine.new_session();
    for round in 1..200 {
        let handle = submit(&engine, &session, "a", 1);
        collect(&handle).unwrap();
        assert_eq!(session.num_tokens(), 2 * round);
    }
}

#[test]
fn a_request_that_waits_for_its_turn_is_cancelled_at_once() {
    let engine = endless().start();
    let session = engine.new_session();
    let running = submit(&engine, &session, "running ", ENDLESS);
    wait_for_delta(&running);
    let waiting: Vec<_> = (0..3).map(|_| submit(&engine, &session, "waiting ", 5)).collect();
    waiting[0].abort();
    let output = collect(&waiting[0]).unwrap();
    assert_eq!((output.finished.reason, output.tokens.len()), (FinishReason::Cancelled, 0));
    assert_eq!(output.finished.usage, Usage::default());
    let mut waiting = waiting.into_iter().skip(1);
    // Dropped, as by a client that left.
    drop(waiting.next());
    assert_eq!(session.num_tokens(), 0, "the first request is still running");
    running.abort();
    let finished = collect(&running).unwrap().finished;
    assert_eq!(finished.reason, FinishReason::Cancelled);
    let last = collect(&waiting.next().unwrap()).unwrap();
    let before = ids("running ").len() + finished.usage.num_completion_tokens;
    assert_eq!(last.finished.usage.num_prompt_tokens, before + ids("waiting ").len());
}

#[test]
fn waiting_calls_hold_places_in_the_bounded_queue() {
    let mut setup = endless();
    setup.scheduler.max_queued_requests = 4;
    let engine = setup.start();
    let session = engine.new_session();
    let running = submit(&engine, &session, "running ", ENDLESS);
    wait_for_delta(&running);
    let waiting: Vec<_> = (0..4).map(|_| submit(&engine, &session, "w", 1)).collect();
    let refused = collect(&submit(&engine, &session, "w", 1)).unwrap_err();
    assert!(matches!(refused, Error::QueueFull { limit: 4, .. }), "{refused}");
    waiting[3].abort();
    assert_eq!(collect(&waiting[3]).unwrap().finished.reason, FinishReason::Cancelled);
    let instead = submit(&engine, &session, "w", 1);
    running.abort();
    for handle in waiting[..3].iter().chain([&instead]) {
        assert_eq!(collect(handle).unwrap().tokens.len(), 1);
    }
    assert_eq!(engine.stats().num_preparing, 0);
}

/// Whatever happens to a request, the session goes on, and from the right tokens.
#[test]
fn every_ending_gives_the_turn_to_the_next_call() {
    let setup =
        FakeEngine { limits: fake::limits(1, 300, KvLayout::PerSequence, 300), ..FakeEngine::default() };
    let engine = setup.start();
    let session = engine.new_session();
    go_on(&engine, &session, "start ", 5);
    let unchanged = session.tokens();
    let invalid = |change: &dyn Fn(&mut RequestParts)| {
        let mut parts = parts("x", 5);
        change(&mut parts);
        collect(&engine.submit(appending(&session, parts), None)).unwrap_err()
    };
    // Refused while it is prepared.
    let error = invalid(&|parts| parts.prompt = Prompt::Tokens(vec![TokenId(5000)]));
    assert_eq!(error.code(), "invalid_parameter");
    let error = invalid(&|parts| parts.stopping.stop_token_ids = vec![TokenId(-1)]);
    assert_eq!(error.code(), "invalid_parameter");
    let long = "y".repeat(300 - unchanged.len());
    let error = collect(&submit(&engine, &session, &long, 5)).unwrap_err();
    assert_eq!(error, Error::ContextExceeded { prompt_tokens: 300, context_length: 300 });
    assert_eq!(session.tokens(), unchanged);
    // Failed while it runs.
    setup.fault.next_decode(3);
    assert_eq!(collect(&submit(&engine, &session, "x", 5)).unwrap_err(), Error::DecodeFailed { code: 3 });
    assert_eq!(session.tokens(), unchanged);
    // Ended without a token.
    let mut parts = parts("x", 5);
    parts.stopping.max_total_tokens = Some(unchanged.len() as u32 + 1);
    assert_eq!(collect(&engine.submit(appending(&session, parts), None)).unwrap().tokens.len(), 0);
    assert_eq!(session.tokens(), unchanged);
    // Cancelled while it runs, and while it waits for a slot, which the other holds as long as need be.
    let limits = fake::limits(1, 1 << 20, KvLayout::PerSequence, 1 << 20);
    let engine = FakeEngine { limits, ..endless() }.start();
    let session = engine.new_session();
    go_on(&engine, &session, "start ", 5);
    let unchanged = session.tokens();
    let other = engine.new_session();
    let running = submit(&engine, &other, "r", ENDLESS);
    wait_for_delta(&running);
    let waiting = submit(&engine, &session, "w", 5);
    while !matches!(waiting.recv(), Some(Event::Accepted { .. })) {}
    waiting.abort();
    assert_eq!(collect(&waiting).unwrap().tokens.len(), 0);
    assert_eq!(session.tokens(), unchanged);
    running.abort();
    collect(&running).unwrap();
    drop(submit(&engine, &session, "dropped", 200));
    let before = session.tokens();
    let output = collect(&submit(&engine, &session, "!", 3)).unwrap();
    assert!(output.finished.usage.num_prompt_tokens > before.len().min(unchanged.len()));
    go_on(&engine, &session, "end", 5);
}

#[test]
fn a_panic_ends_every_call_of_every_session() {
    for _ in 0..20 {
        let setup = endless();
        let engine = setup.start();
        let session = engine.new_session();
        let running = submit(&engine, &session, "running", ENDLESS);
        wait_for_delta(&running);
        let waiting: Vec<_> = (0..5).map(|_| submit(&engine, &session, "waiting", 5)).collect();
        let jobs = [
            session.save("/nonexistent/never", None),
            session.load("/nonexistent/never", None),
            session.reset(None),
        ];
        let last = submit(&engine, &session, "last", 5);
        setup.fault.next_decode(Fault::PANIC);
        for handle in [&running, &last].into_iter().chain(&waiting) {
            assert_eq!(collect(handle).unwrap_err().code(), "engine_dead");
        }
        let [save, load, reset] = jobs;
        assert_eq!(save.wait().unwrap_err().code(), "engine_dead");
        assert_eq!(load.wait().unwrap_err().code(), "engine_dead");
        // What needs no engine is done.
        reset.wait().unwrap();
        engine.shutdown();
        engine.join();
    }
}

#[test]
fn shutdown_ends_what_waits_and_later_calls_are_refused() {
    let engine = endless().start();
    let session = engine.new_session();
    let running = submit(&engine, &session, "running", ENDLESS);
    wait_for_delta(&running);
    let waiting: Vec<_> = (0..100).map(|_| submit(&engine, &session, "waiting", 5)).collect();
    let save = session.save("/nonexistent/never", None);
    engine.shutdown();
    for handle in waiting.iter().chain([&running]) {
        assert_eq!(collect(handle).unwrap_err(), Error::ShutDown);
    }
    assert_eq!(save.wait(), Err(Error::ShutDown));
    engine.join();
    assert_eq!(session.load("/nonexistent/never", None).wait(), Err(Error::ShutDown));
    assert_eq!(collect(&submit(&engine, &session, "late", 5)).unwrap_err(), Error::ShutDown);
    assert_eq!(session.num_tokens(), 0);
}

#[test]
fn the_session_may_be_dropped_while_its_requests_run() {
    let engine = FakeEngine::default().start();
    let session = engine.new_session();
    let handles: Vec<_> = (0..3).map(|_| submit(&engine, &session, "ab", 4)).collect();
    drop(session);
    let counts: Vec<usize> =
        handles.iter().map(|handle| collect(handle).unwrap().finished.usage.num_prompt_tokens).collect();
    assert_eq!(counts, [2, 8, 14]);
}

#[test]
fn a_session_of_another_engine_is_refused() {
    let (engine, other) = (FakeEngine::default().start(), FakeEngine::default().start());
    let error = collect(&submit(&engine, &other.new_session(), "x", 1)).unwrap_err();
    assert_eq!(error.to_string(), "session: must belong to the engine that it is used with");
}

#[test]
fn replacing_makes_the_prompt_the_whole() {
    let engine = FakeEngine::default().start();
    let session = engine.new_session();
    go_on(&engine, &session, "the old text", 5);
    let replacing = in_session(parts("the old text and more", 5), &session, SessionMode::Replace, true);
    let output = collect(&engine.submit(replacing, None)).unwrap();
    let whole = [ids("the old text and more"), output.tokens].concat();
    assert_eq!(session.tokens(), whole);
    assert!(session.is_templated());
    assert!(output.finished.usage.num_cached_tokens >= "the old text".len());
    go_on(&engine, &session, " raw", 5);
    assert!(!session.is_templated(), "the last request says what the session is");
}

/// Prompts whose greedy answer ends by itself, and early.
fn ending_prompt() -> String {
    let ends = |prompt: &String| greedy_after(&ids(prompt), 50, false).last() == Some(&END);
    (0..1000).map(|index| format!("question {index}")).find(ends).unwrap()
}

#[test]
fn the_next_turn_ends_the_turn_before_only_where_the_model_did_not() {
    let engine = FakeEngine::default().start();
    let next = NextTurn { turn: "<turn>".into(), end_of_turn: "<end>".into(), after_end: "\n".into() };
    let ask = |session: &Session, prompt: &str, max_tokens: u32, ignore_eos: bool| {
        let mut parts = parts(prompt, max_tokens);
        parts.stopping.ignore_eos = ignore_eos;
        let mode = SessionMode::AppendTurn(next.clone());
        collect(&engine.submit(in_session(parts, session, mode, true), None)).unwrap()
    };
    let session = engine.new_session();
    let prompt = ending_prompt();
    let answer = ask(&session, &prompt, 50, false);
    assert_eq!(answer.finished.reason, FinishReason::Stop);
    assert_eq!(session.tokens(), [ids(&prompt), answer.tokens].concat(), "an empty session takes the prompt");
    let before = session.tokens();
    let cut_off = ask(&session, "not used", 4, true);
    assert_eq!(session.tokens(), [before, ids("\n<turn>"), cut_off.tokens].concat());
    let before = session.tokens();
    let third = ask(&session, "not used", 4, true);
    assert_eq!(session.tokens(), [before, ids("<end><turn>"), third.tokens].concat());
    // A session that is not templated goes on raw.
    let raw = engine.new_session();
    go_on(&engine, &raw, "raw ", 4);
    let before = raw.tokens();
    let output = ask(&raw, "prompt", 4, true);
    assert_eq!(raw.tokens(), [before, ids("prompt"), output.tokens].concat());
    assert!(raw.is_templated());
}

#[test]
fn evicted_cells_are_computed_again_and_change_nothing() {
    for memory in KINDS {
        let setup = FakeEngine {
            memory,
            limits: fake::limits(1, 512, KvLayout::PerSequence, 512),
            scheduler: SchedulerConfig { parking_bytes: 0, ..SchedulerConfig::default() },
            ..FakeEngine::default()
        };
        let engine = setup.start();
        let session = engine.new_session();
        go_on(&engine, &session, "Once upon a time ", 20);
        collect(&engine.submit(crate::common::greedy("something else altogether", 20), None)).unwrap();
        let output = go_on(&engine, &session, "there was ", 20);
        assert_eq!(output.finished.usage.num_cached_tokens, 0, "{memory:?}");
    }
}

#[test]
fn listeners_are_told_of_calls_that_are_done() {
    struct Told(mpsc::Sender<u64>);
    impl Notify for Told {
        fn ready(&self, key: u64) {
            self.0.send(key).unwrap();
        }
        fn flush(&self) {}
    }
    let engine = FakeEngine::default().start();
    let session = engine.new_session();
    let (sender, receiver) = mpsc::channel();
    let listener = Listener { notify: std::sync::Arc::new(Told(sender)), key: 7 };
    let job = session.reset(Some(listener));
    assert_eq!(receiver.recv(), Ok(7));
    assert_eq!(job.take(), Some(Ok(())));
}
