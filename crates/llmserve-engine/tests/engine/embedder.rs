//! The embedder on a fake context: batches, turns, refusals, cancellation, faults and shutdown.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, Mutex};

use llmserve_engine::model::fake::FakeVocabulary;
use llmserve_engine::model::{DecodeError, EmbeddingContext, EmbeddingLimits, Vocabulary};
use llmserve_engine::*;

const LIMITS: EmbeddingLimits = EmbeddingLimits {
    context_length: 40,
    batch_rows: 16,
    max_sequences: 4,
    dimensions: 3,
    num_cells: 0,
    num_threads: 1,
};

/// A batch: the inputs as texts.
type Batch = Vec<String>;

/// What a batch of the fake ends with.
#[derive(Clone, Copy)]
enum End {
    Vectors,
    Fault(DecodeError),
    Panic,
    NoNumbers,
}

/// A context whose batches wait for the test, which sees them.
struct FakeEmbedding {
    limits: EmbeddingLimits,
    batches: Arc<Mutex<Vec<Batch>>>,
    /// Says that a batch has begun.
    begun: Sender<()>,
    /// Ends it.
    go: Receiver<End>,
    /// What is done without being told once nobody tells.
    default: Option<End>,
}

/// First token, number of tokens, last token.
fn vector_of(text: &str) -> Vec<f32> {
    let bytes = text.as_bytes();
    vec![f32::from(bytes[0]), bytes.len() as f32, f32::from(bytes[bytes.len() - 1])]
}

fn normalised(vector: &[f32]) -> Vec<f32> {
    let length = vector.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
    vector.iter().map(|value| (f64::from(*value) / length) as f32).collect()
}

impl EmbeddingContext for FakeEmbedding {
    fn limits(&self) -> &EmbeddingLimits {
        &self.limits
    }

    fn embed(&mut self, inputs: &[&[TokenId]], vectors: &mut Vec<f32>) -> Result<(), DecodeError> {
        let num_rows: usize = inputs.iter().map(|input| input.len()).sum();
        assert!(inputs.len() <= self.limits.max_sequences, "{} inputs", inputs.len());
        assert!(num_rows <= self.limits.batch_rows || inputs.len() == 1, "{num_rows} rows");
        let texts: Batch = inputs
            .iter()
            .map(|input| String::from_utf8(input.iter().map(|token| token.0 as u8).collect()).unwrap())
            .collect();
        self.batches.lock().unwrap().push(texts.clone());
        let end = self.default.unwrap_or_else(|| {
            self.begun.send(()).unwrap();
            // The test has gone: whatever, its embedder goes too.
            self.go.recv().unwrap_or(End::Vectors)
        });
        match end {
            End::Vectors => vectors.extend(texts.iter().flat_map(|text| vector_of(text))),
            End::Fault(error) => return Err(error),
            End::Panic => panic!("a fault of the fake"),
            End::NoNumbers => vectors.extend(texts.iter().flat_map(|_| [1.0, f32::NAN, 1.0])),
        }
        Ok(())
    }
}

/// The text at which a prepare thread panics.
const FAULT: &str = "fault";
/// The text at which the prepare threads and the test wait for each other.
const BARRIER: &str = "barrier";

/// The number of prepare threads that the embedder starts.
fn num_prepare_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).clamp(3, 8)
}

struct TestVocabulary(Arc<Barrier>);

impl Vocabulary for TestVocabulary {
    fn size(&self) -> usize {
        FakeVocabulary.size()
    }

    fn tokenize(&self, text: &str, add_special: bool, parse_special: bool) -> Result<Vec<TokenId>, Error> {
        if text == BARRIER {
            self.0.wait();
        }
        assert_ne!(text, FAULT, "a fault that the test asked for");
        FakeVocabulary.tokenize(text, add_special, parse_special)
    }

    fn piece(&self, token: TokenId, render_special: bool) -> &[u8] {
        FakeVocabulary.piece(token, render_special)
    }

    fn max_piece_bytes(&self) -> usize {
        FakeVocabulary.max_piece_bytes()
    }

    fn end_of_generation(&self) -> &[TokenId] {
        &[]
    }
}

struct Rig {
    embedder: Embedder,
    barrier: Arc<Barrier>,
    batches: Arc<Mutex<Vec<Batch>>>,
    begun: Receiver<()>,
    go: Sender<End>,
}

impl Rig {
    /// Batches end when the test says so.
    fn stepping(scheduler: SchedulerConfig) -> Self {
        Self::new(scheduler, None)
    }

    /// Batches end by themselves.
    fn running(scheduler: SchedulerConfig) -> Self {
        Self::new(scheduler, Some(End::Vectors))
    }

    fn new(scheduler: SchedulerConfig, default: Option<End>) -> Self {
        let (begun, is_begun) = channel();
        let (go, may_go) = channel();
        let batches = Arc::new(Mutex::new(Vec::new()));
        let context =
            FakeEmbedding { limits: LIMITS, batches: Arc::clone(&batches), begun, go: may_go, default };
        let barrier = Arc::new(Barrier::new(num_prepare_threads() + 1));
        let embedder = Embedder::start(EmbedderParts {
            open: Box::new(move || Ok(Box::new(context) as Box<dyn EmbeddingContext>)),
            vocabulary: Arc::new(TestVocabulary(Arc::clone(&barrier))),
            info: ModelInfo::default(),
            is_ranking: false,
            scheduler,
        });
        Self { embedder: embedder.unwrap(), barrier, batches, begun: is_begun, go }
    }

    fn embed(&self, texts: &[&str]) -> Job<Embeddings> {
        self.embedder.embed(EmbeddingRequest::texts(texts.iter().copied()), None)
    }

    /// Waits until what was submitted is where the embed thread finds it: each prepare thread has come to a
    /// later piece of work.
    fn wait_for_preparing(&self) {
        let tokenize = |_| self.embedder.tokenize(BARRIER.to_owned(), false, Special::Plain, None);
        let jobs: Vec<_> = (0..num_prepare_threads()).map(tokenize).collect();
        self.barrier.wait();
        for job in jobs {
            job.wait().unwrap();
        }
    }

    /// Ends the batch that runs.
    fn end_batch(&self, end: End) {
        self.begun.recv().unwrap();
        self.go.send(end).unwrap();
    }

    fn batches(&self) -> Vec<Batch> {
        self.batches.lock().unwrap().clone()
    }
}

fn refusal(job: &Job<Embeddings>) -> Error {
    job.wait().expect_err("the request was not refused")
}

#[test]
fn vectors_come_in_the_order_of_the_inputs() {
    let rig = Rig::running(SchedulerConfig::default());
    let texts: Vec<String> = (0..100).map(|number| format!("{number} text")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let embeddings = rig.embed(&texts).wait().unwrap();
    assert_eq!(embeddings.dimensions, 3);
    assert_eq!(embeddings.num_tokens, texts.iter().map(|text| text.len()).collect::<Vec<_>>());
    let expected: Vec<_> = texts.iter().map(|text| normalised(&vector_of(text))).collect();
    assert_eq!(embeddings.vectors().collect::<Vec<_>>(), expected);
    assert!(rig.batches().iter().any(|batch| batch.len() > 1));
    let stats = rig.embedder.stats();
    assert_eq!((stats.requests_accepted, stats.requests_stopped, stats.num_running), (1, 1, 0));
    assert_eq!(stats.prompt_tokens, texts.iter().map(|text| text.len() as u64).sum::<u64>());
}

#[test]
fn vectors_are_cut_before_they_are_scaled() {
    let rig = Rig::running(SchedulerConfig::default());
    let request = EmbeddingRequest { dimensions: Some(2), ..EmbeddingRequest::texts(["ab"]) };
    let values = rig.embedder.embed(request.clone(), None).wait().unwrap().values;
    assert_eq!(values, normalised(&vector_of("ab")[..2]));
    let raw = EmbeddingRequest { normalize: false, dimensions: None, ..request };
    assert_eq!(rig.embedder.embed(raw, None).wait().unwrap().values, vector_of("ab"));
}

#[test]
fn inputs_of_several_requests_are_computed_together_by_turns() {
    let rig = Rig::stepping(SchedulerConfig::default());
    let first = rig.embed(&["first"]);
    rig.begun.recv().unwrap();
    let long = rig.embed(&["a1", "a2", "a3", "a4", "a5", "a6"]);
    rig.wait_for_preparing();
    let short = rig.embed(&["b1"]);
    rig.wait_for_preparing();
    rig.go.send(End::Vectors).unwrap();
    first.wait().unwrap();
    rig.end_batch(End::Vectors);
    short.wait().unwrap();
    rig.end_batch(End::Vectors);
    long.wait().unwrap();
    assert_eq!(rig.batches(), [vec!["first"], vec!["a1", "b1", "a2", "a3"], vec!["a4", "a5", "a6"]]);
}

#[test]
fn lengths_around_the_limits_give_vectors_or_the_reason() {
    let rig = Rig::running(SchedulerConfig::default());
    for length in [1, 15, 16, 17, 39, 40] {
        let text = "x".repeat(length);
        assert_eq!(rig.embed(&[&text]).wait().unwrap().num_tokens, [length], "{length}");
    }
    let error = refusal(&rig.embed(&["fits", &"x".repeat(41)]));
    let too_long = Error::InputTooLong { index: 1, num_tokens: 41, is_exact: true, limit: 40 };
    assert_eq!(error, too_long);
    assert_eq!(error.to_string(), "input[1]: 41 tokens exceed the context length of 40 tokens");
    let error = refusal(&rig.embed(&[&"x".repeat(1000)]));
    assert_eq!(error.to_string(), "input[0]: at least 1000 tokens exceed the context length of 40 tokens");
    assert_eq!(rig.embedder.stats().requests_refused, 2);
}

#[test]
fn what_cannot_be_embedded_is_named() {
    let rig = Rig::running(SchedulerConfig::default());
    assert_eq!(refusal(&rig.embed(&["a", ""])).to_string(), "input[1]: must have at least one token");
    assert_eq!(refusal(&rig.embed(&[])).to_string(), "inputs: must have at least one input");
    let ids = EmbeddingRequest::tokens([vec![TokenId(1)], vec![TokenId(258)]]);
    assert_eq!(
        refusal(&rig.embedder.embed(ids, None)).to_string(),
        "input[1]: token 258 is outside the vocabulary of 258 tokens"
    );
    for dimensions in [0, 4] {
        let request = EmbeddingRequest { dimensions: Some(dimensions), ..EmbeddingRequest::texts(["a"]) };
        let error = refusal(&rig.embedder.embed(request, None));
        assert_eq!(
            error.to_string(),
            format!("dimensions: must be from 1 to 3, the size of the model's vectors, got {dimensions}")
        );
    }
}

#[test]
fn a_request_that_is_given_up_is_not_computed_further() {
    let rig = Rig::stepping(SchedulerConfig::default());
    let given_up = rig.embed(&["a1", "a2", "a3", "a4", "a5"]);
    rig.begun.recv().unwrap();
    let other = rig.embed(&["b1"]);
    rig.wait_for_preparing();
    drop(given_up);
    rig.go.send(End::Vectors).unwrap();
    rig.end_batch(End::Vectors);
    other.wait().unwrap();
    assert_eq!(rig.batches(), [vec!["a1", "a2", "a3", "a4"], vec!["b1"]]);
    let stats = rig.embedder.stats();
    assert_eq!((stats.requests_cancelled, stats.num_running, stats.num_waiting), (1, 0, 0));
}

#[test]
fn the_queue_is_bounded_and_places_come_back() {
    let rig = Rig::stepping(SchedulerConfig { max_queued_requests: 2, ..SchedulerConfig::default() });
    let first = rig.embed(&["a"]);
    rig.begun.recv().unwrap();
    let second = rig.embed(&["b"]);
    let error = refusal(&rig.embed(&["c"]));
    assert!(matches!(error, Error::QueueFull { limit: 2, unit: "requests", .. }), "{error}");
    rig.go.send(End::Vectors).unwrap();
    first.wait().unwrap();
    rig.end_batch(End::Vectors);
    second.wait().unwrap();
    let third = rig.embed(&["c"]);
    rig.end_batch(End::Vectors);
    third.wait().unwrap();
}

#[test]
fn tokens_in_the_queue_are_bounded() {
    let rig = Rig::stepping(SchedulerConfig { max_queued_tokens: 10, ..SchedulerConfig::default() });
    let alone = rig.embed(&["more than ten tokens"]);
    rig.begun.recv().unwrap();
    let error = refusal(&rig.embed(&["x"]));
    assert!(matches!(error, Error::QueueFull { limit: 10, unit: "tokens", .. }), "{error}");
    rig.go.send(End::Vectors).unwrap();
    alone.wait().unwrap();
}

#[test]
fn a_failing_batch_fails_its_requests_only() {
    let rig = Rig::stepping(SchedulerConfig::default());
    let failing = rig.embed(&["a"]);
    rig.begun.recv().unwrap();
    let other = rig.embed(&["b"]);
    rig.go.send(End::Fault(DecodeError::Failed(-3))).unwrap();
    assert_eq!(refusal(&failing), Error::DecodeFailed { code: -3 });
    rig.end_batch(End::Vectors);
    other.wait().unwrap();
    assert_eq!(rig.embedder.stats().requests_failed, 1);
    assert_eq!(rig.embedder.dead_reason(), None);
}

#[test]
fn numbers_that_are_none_are_no_answer() {
    let rig = Rig::stepping(SchedulerConfig::default());
    let job = rig.embed(&["a", "b"]);
    rig.end_batch(End::NoNumbers);
    assert_eq!(refusal(&job), Error::InvalidEmbedding);
}

#[test]
fn a_panic_fails_everything_and_shows() {
    let rig = Rig::stepping(SchedulerConfig::default());
    let running = rig.embed(&["a"]);
    rig.begun.recv().unwrap();
    let waiting = rig.embed(&["b"]);
    rig.go.send(End::Panic).unwrap();
    for job in [&running, &waiting] {
        assert!(matches!(refusal(job), Error::EngineDead { .. }));
    }
    assert!(rig.embedder.dead_reason().is_some());
    assert!(matches!(refusal(&rig.embed(&["c"])), Error::EngineDead { .. }));
    rig.embedder.shutdown();
    rig.embedder.join();
}

#[test]
fn a_panic_while_inputs_are_tokenized_fails_their_request_only() {
    let rig = Rig::running(SchedulerConfig::default());
    for _ in 0..2 * num_prepare_threads() {
        assert_eq!(refusal(&rig.embed(&["good", FAULT])), Error::Internal);
        let tokens = rig.embedder.tokenize(FAULT.to_owned(), false, Special::Plain, None);
        assert_eq!(tokens.wait(), Err(Error::Internal));
    }
    assert!(rig.embed(&["good"]).wait().is_ok());
    assert_eq!(rig.embedder.stats().num_preparing, 0);
    assert_eq!(rig.embedder.dead_reason(), None);
    rig.embedder.shutdown();
    rig.embedder.join();
}

#[test]
fn a_shutdown_ends_what_waits() {
    let rig = Rig::stepping(SchedulerConfig::default());
    let running = rig.embed(&["a1", "a2", "a3", "a4", "a5"]);
    rig.begun.recv().unwrap();
    let waiting = rig.embed(&["b"]);
    rig.embedder.shutdown();
    let late = rig.embed(&["c"]);
    let tokens = rig.embedder.tokenize("a".to_owned(), true, Special::Plain, None);
    rig.go.send(End::Vectors).unwrap();
    for job in [&running, &waiting, &late] {
        assert_eq!(refusal(job), Error::ShutDown);
    }
    assert_eq!(tokens.wait(), Err(Error::ShutDown));
    rig.embedder.join();
    assert!(rig.embedder.is_shut_down());
}

#[test]
fn texts_can_be_tokenized_and_back() {
    let rig = Rig::running(SchedulerConfig::default());
    let tokens = rig.embedder.tokenize("ab".to_owned(), true, Special::Control, None).wait().unwrap();
    assert_eq!(tokens, [TokenId(97), TokenId(98)]);
    assert_eq!(rig.embedder.detokenize(tokens, false, None).wait(), Ok(b"ab".to_vec()));
    assert!(rig.embedder.detokenize(vec![TokenId(-1)], false, None).wait().is_err());
}
