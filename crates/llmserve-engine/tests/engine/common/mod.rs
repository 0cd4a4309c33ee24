//! What the engine tests share: engines on the fake model, a reference for its text, collecting.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};

use llmserve_engine::model::fake::{self, END, FakeContext, FakeVocabulary, Memory};
use llmserve_engine::model::{Compute, Context, ContextLimits, DecodeError, DraftRequest, Row, Vocabulary};
use llmserve_engine::*;

/// What a finished request gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    pub tokens: Vec<TokenId>,
    pub text: String,
    pub finished: Finished,
}

/// Waits for the end of a request.
pub fn collect(handle: &RequestHandle) -> Result<Output, Error> {
    let mut tokens = Vec::new();
    let mut text = String::new();
    loop {
        match handle.recv().expect("a terminal event comes first") {
            Event::Accepted { .. } | Event::Started { .. } | Event::Progress { .. } | Event::Prompt(_) => {}
            Event::Delta(delta) => {
                text.push_str(&delta.text());
                tokens.extend(delta.tokens.iter().map(|record| record.id));
            }
            Event::Finished(finished) => return Ok(Output { tokens, text, finished }),
            Event::Failed(error) => return Err(error),
        }
    }
}

/// The file or folder that a variable names.
pub fn from_env(name: &str) -> PathBuf {
    let path = std::env::var_os(name).unwrap_or_else(|| panic!("{name} is not set; `make test` sets it"));
    PathBuf::from(path)
}

/// Loads a model and waits for its engine; the progress must rise to 1.
pub fn load_engine(path: &Path, config: ModelConfig) -> Engine {
    let loading = load(path, config, LoadOptions::default(), None);
    let mut last = -1.0;
    loop {
        match loading.recv().expect("a terminal event comes first") {
            LoadEvent::Progress(share) => {
                assert!(share >= last, "{share} after {last}");
                last = share;
            }
            LoadEvent::Ready(engine) => {
                assert!((last - 1.0).abs() < f32::EPSILON);
                return engine;
            }
            LoadEvent::ReadyEmbedder(_) => panic!("the model generates"),
            LoadEvent::Failed(error) => panic!("{error}\n{}", error.detail),
        }
    }
}

pub fn request(parts: RequestParts) -> GenerationRequest {
    GenerationRequest::new(parts).expect("the request is valid")
}

/// A request that uses a session.
pub fn in_session(parts: RequestParts, session: &Session, mode: SessionMode, templated: bool) -> Submission {
    let session = Some(SessionUse { session: session.clone(), mode, templated });
    Submission { session, ..request(parts).into() }
}

pub fn greedy(prompt: &str, max_tokens: u32) -> GenerationRequest {
    request(RequestParts::text(prompt, max_tokens))
}

/// Waits until a prefix cache and the batch have taken in an event: the first delta has come.
pub fn wait_for_delta(handle: &RequestHandle) {
    while let Some(event) = handle.recv() {
        if matches!(event, Event::Delta(_)) {
            return;
        }
    }
    panic!("the request ended without output");
}

/// The greedy tokens of the fake model after a prompt, computed without the engine.
pub fn expected_tokens(prompt: &str, max_tokens: usize) -> Vec<TokenId> {
    let mut history: Vec<TokenId> = prompt.bytes().map(|byte| TokenId(i32::from(byte))).collect();
    let mut output = Vec::new();
    while output.len() < max_tokens {
        let logits = fake::logits_after(&history);
        let best = (0..logits.len()).reduce(|a, b| if logits[b] > logits[a] { b } else { a }).unwrap();
        let token = TokenId(best as i32);
        output.push(token);
        history.push(token);
        if token == END {
            break;
        }
    }
    output
}

pub struct FakeEngine {
    pub limits: ContextLimits,
    pub memory: Memory,
    pub scheduler: SchedulerConfig,
    pub fault: Arc<Fault>,
    /// Cells that the context really has, where it says otherwise.
    pub num_real_cells: Option<usize>,
    /// Whether the model has a head that drafts.
    pub has_head: bool,
    pub trace: Arc<Trace>,
    /// With more tokens than the fake model knows, the others get logits too.
    pub vocabulary: Arc<dyn Vocabulary>,
}

/// What was decoded, a line for each step: `A:prefill[0..7] B:decode` are seven tokens of a prompt in the first
/// slot and a row of a sequence that generates in the second, `B:decode+2` has two drafted tokens behind it.
#[derive(Default)]
pub struct Trace(Mutex<Vec<String>>);

impl Trace {
    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    fn push(&self, rows: &[Row]) {
        let parts = rows.chunk_by(|a, b| a.slot == b.slot).map(|own| {
            let slot = char::from(b'A' + own[0].slot.0 as u8);
            let start = own[0].position as usize;
            match own.len() - 1 {
                0 if own[0].output => format!("{slot}:decode"),
                num_drafted if own[0].output => format!("{slot}:decode+{num_drafted}"),
                _ => format!("{slot}:prefill[{start}..{}]", start + own.len()),
            }
        });
        self.0.lock().unwrap().push(parts.collect::<Vec<_>>().join(" "));
    }
}

/// A fault that a test makes happen: the code of the next decode, or a panic for [`Fault::PANIC`].
#[derive(Default)]
pub struct Fault(AtomicI32);

impl Fault {
    pub const PANIC: i32 = i32::MAX;

    pub fn next_decode(&self, code: i32) {
        self.0.store(code, Ordering::SeqCst);
    }
}

impl Default for FakeEngine {
    fn default() -> Self {
        Self {
            limits: fake::limits(8, 512, KvLayout::PerSequence, 8 * 512),
            memory: Memory::Attention,
            scheduler: SchedulerConfig::default(),
            fault: Arc::default(),
            num_real_cells: None,
            has_head: false,
            trace: Arc::default(),
            vocabulary: Arc::new(FakeVocabulary),
        }
    }
}

impl FakeEngine {
    pub fn start(&self) -> Engine {
        let inner = FakeContext::new(self.limits, self.memory);
        let context = Faulty {
            inner: if self.has_head { inner.with_head() } else { inner },
            fault: Arc::clone(&self.fault),
            trace: Arc::clone(&self.trace),
            num_logits: self.vocabulary.size(),
            wide: Vec::new(),
            cells: vec![0; self.limits.num_slots],
            num_real_cells: self.num_real_cells.unwrap_or(usize::MAX),
        };
        let parts = EngineParts {
            open: Box::new(move || Ok(Box::new(context))),
            vocabulary: Arc::clone(&self.vocabulary),
            info: ModelInfo {
                description: "fake".to_owned(),
                metadata: BTreeMap::new(),
                ..ModelInfo::default()
            },
            scheduler: self.scheduler.clone(),
        };
        Engine::start(parts).expect("the fake engine starts")
    }
}

struct Faulty {
    inner: FakeContext,
    fault: Arc<Fault>,
    trace: Arc<Trace>,
    num_logits: usize,
    /// Rows of logits, where the vocabulary is larger than the fake model's.
    wide: Vec<Option<Vec<f32>>>,
    cells: Vec<usize>,
    num_real_cells: usize,
}

impl Compute for Faulty {
    fn limits(&self) -> &ContextLimits {
        self.inner.limits()
    }
    fn decode(&mut self, rows: &[Row]) -> Result<(), DecodeError> {
        match self.fault.0.swap(0, Ordering::SeqCst) {
            0 if self.cells.iter().sum::<usize>() + rows.len() > self.num_real_cells => {
                Err(DecodeError::KvFull)
            }
            0 => {
                for row in rows {
                    self.cells[row.slot.index()] = row.position as usize + 1;
                }
                self.inner.decode(rows)?;
                self.trace.push(rows);
                if self.num_logits > fake::VOCABULARY_SIZE {
                    let wide = |row| self.inner.logits(row).map(|logits| widened(logits, self.num_logits));
                    self.wide = (0..rows.len()).map(wide).collect();
                }
                Ok(())
            }
            Fault::PANIC => panic!("a fault that the test asked for"),
            code => Err(DecodeError::Failed(code)),
        }
    }
    fn logits(&self, index: usize) -> Option<&[f32]> {
        if self.num_logits > fake::VOCABULARY_SIZE {
            return self.wide.get(index)?.as_deref();
        }
        self.inner.logits(index)
    }
    fn open_head(&mut self) -> Result<(), Error> {
        self.inner.open_head()
    }
    fn close_head(&mut self) {
        self.inner.close_head();
    }
    fn can_draft(&self, slot: SlotId) -> bool {
        self.inner.can_draft(slot)
    }
    fn draft(&mut self, requests: &[DraftRequest]) -> Vec<Vec<TokenId>> {
        self.inner.draft(requests)
    }
}

impl Context for Faulty {
    fn num_tokens(&self, slot: SlotId) -> usize {
        self.inner.num_tokens(slot)
    }
    fn can_trim(&self, slot: SlotId, position: usize) -> bool {
        self.inner.can_trim(slot, position)
    }
    fn trim(&mut self, slot: SlotId, position: usize) -> bool {
        self.cells[slot.index()] = self.cells[slot.index()].min(position);
        self.inner.trim(slot, position)
    }
    fn clear(&mut self, slot: SlotId) {
        self.cells[slot.index()] = 0;
        self.inner.clear(slot);
    }
    fn copy(&mut self, from: SlotId, to: SlotId) -> bool {
        self.cells[to.index()] = self.cells[from.index()];
        self.inner.copy(from, to)
    }
    fn state_bytes(&mut self, slot: SlotId) -> usize {
        self.inner.state_bytes(slot)
    }
    fn save(&mut self, slot: SlotId, max_bytes: usize) -> Option<Vec<u8>> {
        self.inner.save(slot, max_bytes)
    }
    fn restore(&mut self, slot: SlotId, state: &[u8], num_tokens: usize) -> bool {
        self.cells[slot.index()] = state.len() / 4;
        self.inner.restore(slot, state, num_tokens)
    }
    fn tokens(&self, slot: SlotId) -> Option<&[TokenId]> {
        self.inner.tokens(slot)
    }
    fn tells_tokens(&self) -> bool {
        true
    }
}

/// The logits with those of further tokens behind them, which are like theirs.
fn widened(logits: &[f32], num_logits: usize) -> Vec<f32> {
    let printable = &logits[0x20..0x7f];
    let further = (logits.len()..num_logits).map(|id| printable[id * 31 % printable.len()] - (id % 7) as f32);
    logits.iter().copied().chain(further).collect()
}
