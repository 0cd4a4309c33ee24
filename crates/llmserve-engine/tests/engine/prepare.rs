//! Preparing requests on a vocabulary that panics and stands still when the test wants it to.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use llmserve_engine::model::Vocabulary;
use llmserve_engine::model::fake::{self, FakeContext, FakeVocabulary, Memory};
use llmserve_engine::*;

use crate::common::{collect, greedy, in_session};

/// A text with this letter makes the tokenizer panic.
const FAULT: char = '!';
/// A text with this letter is not done before the test says so.
const STUCK: char = '?';
/// The most threads that an engine prepares with.
const MAX_THREADS: usize = 8;

struct Unreliable {
    begun: Mutex<Sender<()>>,
    go: Mutex<Receiver<()>>,
}

impl Vocabulary for Unreliable {
    fn size(&self) -> usize {
        FakeVocabulary.size()
    }
    fn tokenize(&self, text: &str, add_special: bool, parse_special: bool) -> Result<Vec<TokenId>, Error> {
        assert!(!text.contains(FAULT), "a fault that the test asked for");
        if text.contains(STUCK) {
            self.begun.lock().unwrap().send(()).unwrap();
            // Also where the test has ended.
            self.go.lock().unwrap().recv().unwrap_or(());
        }
        FakeVocabulary.tokenize(text, add_special, parse_special)
    }
    fn piece(&self, token: TokenId, render_special: bool) -> &[u8] {
        FakeVocabulary.piece(token, render_special)
    }
    fn max_piece_bytes(&self) -> usize {
        FakeVocabulary.max_piece_bytes()
    }
    fn end_of_generation(&self) -> &[TokenId] {
        FakeVocabulary.end_of_generation()
    }
}

struct Rig {
    engine: Engine,
    /// A tokenizer stands still.
    begun: Receiver<()>,
    /// Lets one go on; all of them when it is dropped.
    go: Sender<()>,
}

fn rig() -> Rig {
    let (start, begun) = channel();
    let (go, may_go) = channel();
    let limits = fake::limits(4, 1 << 20, KvLayout::PerSequence, 4 << 20);
    let engine = Engine::start(EngineParts {
        open: Box::new(move || Ok(Box::new(FakeContext::new(limits, Memory::Attention)))),
        vocabulary: Arc::new(Unreliable { begun: Mutex::new(start), go: Mutex::new(may_go) }),
        info: ModelInfo::default(),
        scheduler: SchedulerConfig::default(),
    });
    Rig { engine: engine.unwrap(), begun, go }
}

#[test]
fn a_panic_fails_its_request_and_the_thread_is_there_for_the_next() {
    let Rig { engine, .. } = rig();
    for _ in 0..2 * MAX_THREADS {
        let error = collect(&engine.submit(greedy("fault!", 5), None)).unwrap_err();
        assert_eq!((&error, error.code()), (&Error::Internal, "internal_error"));
        let tokens = engine.tokenize("fault!".to_owned(), false, Special::Plain, None);
        assert_eq!(tokens.wait(), Err(Error::Internal));
    }
    let stats = engine.stats();
    assert_eq!((stats.num_preparing, stats.requests_refused), (0, 2 * MAX_THREADS as u64));
    assert_eq!(engine.dead_reason(), None);
    collect(&engine.submit(greedy("good", 5), None)).unwrap();
    engine.shutdown();
    engine.join();
}

#[test]
fn a_panic_gives_its_turn_to_the_next_call_of_the_session() {
    let Rig { engine, .. } = rig();
    let session = engine.new_session();
    let submit = |prompt: &str| {
        engine.submit(in_session(RequestParts::text(prompt, 5), &session, SessionMode::Append, false), None)
    };
    let (fault, good) = (submit("fault!"), submit("good"));
    assert_eq!(collect(&fault).unwrap_err(), Error::Internal);
    let output = collect(&good).unwrap();
    assert_eq!(session.num_tokens(), "good".len() + output.tokens.len());
}

#[test]
fn slow_prompts_leave_a_thread_to_short_ones() {
    let Rig { engine, begun, go } = rig();
    let slow = STUCK.to_string().repeat(100 << 10);
    let stuck: Vec<RequestHandle> = (0..MAX_THREADS).map(|_| engine.submit(greedy(&slow, 1), None)).collect();
    begun.recv().unwrap();
    collect(&engine.submit(greedy("short", 5), None)).unwrap();
    let tokens = engine.tokenize("short".to_owned(), false, Special::Plain, None);
    assert_eq!(tokens.wait().unwrap().len(), 5);
    drop(go);
    for handle in &stuck {
        collect(handle).unwrap();
    }
}

#[test]
fn a_shutdown_leaves_behind_what_never_ends() {
    let Rig { engine, begun, go } = rig();
    let stuck = engine.submit(greedy("stuck?", 5), None);
    begun.recv().unwrap();
    let waiting: Vec<RequestHandle> = (0..20).map(|_| engine.submit(greedy("stuck?", 5), None)).collect();
    engine.shutdown();
    for handle in waiting.iter().chain([&stuck]) {
        assert_eq!(collect(handle).unwrap_err(), Error::ShutDown);
    }
    engine.join();
    // It still stood there.
    drop(go);
}

#[test]
fn the_last_handle_to_be_closed_ends_the_requests() {
    let Rig { engine, .. } = rig();
    let mut endless = RequestParts::text("endless", 1_000_000);
    endless.stopping.ignore_eos = true;
    let running = engine.submit(GenerationRequest::new(endless).unwrap(), None);
    let other = engine.clone();
    other.close();
    assert!(other.is_closed() && !other.is_shut_down());
    collect(&engine.submit(greedy("still there", 5), None)).unwrap();
    engine.close();
    assert!(engine.is_shut_down());
    assert_eq!(collect(&running).unwrap_err(), Error::ShutDown);
    assert_eq!(collect(&engine.submit(greedy("late", 5), None)).unwrap_err(), Error::ShutDown);
    other.join();
}
