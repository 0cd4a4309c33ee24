//! How requests end before their time, and what that does to others: nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use llmserve_engine::model::Vocabulary;
use llmserve_engine::model::fake::{self, FakeVocabulary};
use llmserve_engine::*;

use super::{assert_expected, prompt, settled};
use crate::common::{FakeEngine, Fault, collect, expected_tokens, greedy, request, wait_for_delta};

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
    drop(other);
    // Both slots are free at once.
    let next = collect(&engine.submit(greedy("next", 10), None)).unwrap();
    assert_expected(&next, "next", 10);
    let stats = settled(&engine);
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
    let stats = settled(&engine);
    assert!(stats.rows < 500_000);
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

/// Panics when a token is looked up.
struct Trap(AtomicI32);

impl Vocabulary for Trap {
    fn size(&self) -> usize {
        FakeVocabulary.size()
    }

    fn tokenize(&self, text: &str, add_special: bool, parse_special: bool) -> Result<Vec<TokenId>, Error> {
        FakeVocabulary.tokenize(text, add_special, parse_special)
    }

    fn piece(&self, token: TokenId, render_special: bool) -> &[u8] {
        assert_ne!(token.0, self.0.load(Ordering::SeqCst), "a fault that the test asked for");
        FakeVocabulary.piece(token, render_special)
    }

    fn max_piece_bytes(&self) -> usize {
        1
    }

    fn end_of_generation(&self) -> &[TokenId] {
        FakeVocabulary.end_of_generation()
    }
}

#[test]
fn a_panic_in_the_output_of_a_sequence_fails_that_one_only() {
    let trap = Arc::new(Trap(AtomicI32::new(-1)));
    let setup = FakeEngine { vocabulary: Arc::clone(&trap) as Arc<dyn Vocabulary>, ..FakeEngine::default() };
    let engine = setup.start();
    let schema = ConstraintSpec::JsonSchema(r#"{"type": "array", "items": {"type": "boolean"}}"#.to_owned());
    let constrained =
        || request(RequestParts { constraint: Some(schema.clone()), ..RequestParts::text("list", 30) });
    // By now the vocabulary has been read for constraints.
    let document = collect(&engine.submit(constrained(), None)).unwrap();
    let texts: Vec<String> = (0..8).map(prompt).collect();
    let first = expected_tokens(&texts[0], 40);
    let victim = first[first.len() / 2];
    trap.0.store(victim.0, Ordering::SeqCst);
    let handles: Vec<_> = texts.iter().map(|text| engine.submit(greedy(text, 40), None)).collect();
    for (text, handle) in texts.iter().zip(&handles) {
        let expected = expected_tokens(text, 40);
        match collect(handle) {
            Ok(output) => {
                assert_eq!(output.tokens, expected);
                assert!(!expected.contains(&victim));
            }
            Err(error) => {
                assert_eq!(error, Error::Internal);
                assert!(expected.contains(&victim));
            }
        }
    }
    assert_eq!(engine.dead_reason(), None);
    trap.0.store(-1, Ordering::SeqCst);
    // Masks are computed as before.
    assert_eq!(collect(&engine.submit(constrained(), None)).unwrap().text, document.text);
}
