//! Session files through the public API, on the deterministic fake model.

mod cells;
mod contents;
mod paths;

use std::fs;
use std::path::{Path, PathBuf};

use llmserve_engine::model::fake::{self, Memory};
use llmserve_engine::*;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::common::{FakeEngine, Output, collect, in_session};
use crate::support::allocation::peak_during;
use crate::support::temp_dir::TempDir;

const KINDS: [Memory; 3] = [Memory::Attention, Memory::SlidingWindow(16), Memory::Recurrent];
const CHECKSUM_BYTES: usize = 32;

fn go_on(engine: &Engine, session: &Session, prompt: &str, max_tokens: u32) -> Output {
    let mut parts = RequestParts::text(prompt, max_tokens);
    parts.stopping.ignore_eos = true;
    collect(&engine.submit(in_session(parts, session, SessionMode::Append, true), None)).unwrap()
}

fn save(session: &Session, path: &Path) -> Result<(), SessionError> {
    session_error(session.save(path, None).wait())
}

fn load(session: &Session, path: &Path) -> Result<(), SessionError> {
    session_error(session.load(path, None).wait())
}

fn session_error(result: Result<(), Error>) -> Result<(), SessionError> {
    result.map_err(|error| {
        let Error::Session(error) = error else { panic!("{error}") };
        error
    })
}

fn reason<T: std::fmt::Debug>(result: Result<T, SessionError>) -> &'static str {
    result.expect_err("it must be refused").reason.code()
}

/// A session file in parts.
struct Parts {
    header: Value,
    tokens: Vec<i32>,
    state: Vec<u8>,
}

impl Parts {
    /// Reads a file that the engine wrote.
    fn of(bytes: &[u8]) -> Self {
        let header_bytes = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
        let header: Value = serde_json::from_slice(&bytes[16..16 + header_bytes]).unwrap();
        let tokens_end = 16 + header_bytes + 4 * header["num_tokens"].as_u64().unwrap() as usize;
        let ids = bytes[16 + header_bytes..tokens_end].chunks_exact(4);
        let tokens = ids.map(|id| i32::from_le_bytes(id.try_into().unwrap())).collect();
        Self { header, tokens, state: bytes[tokens_end..bytes.len() - CHECKSUM_BYTES].to_vec() }
    }

    /// The bytes of a file whose checksum is right, whatever the header says.
    fn bytes(&self) -> Vec<u8> {
        let header = serde_json::to_vec(&self.header).unwrap();
        let mut bytes = b"\x93LLMSV\r\n".to_vec();
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend((header.len() as u32).to_le_bytes());
        bytes.extend(header);
        bytes.extend(self.tokens.iter().flat_map(|id| id.to_le_bytes()));
        bytes.extend(&self.state);
        sealed(bytes)
    }
}

fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let checksum = Sha256::digest(&bytes);
    bytes.extend(checksum);
    bytes
}

/// An engine, a session with some tokens, and the bytes of its file.
struct Saved {
    engine: Engine,
    session: Session,
    folder: TempDir,
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Saved {
    fn new() -> Self {
        let engine = FakeEngine::default().start();
        let session = engine.new_session();
        go_on(&engine, &session, "Once upon a time", 8);
        let folder = TempDir::new();
        let path = folder.path().join("a session");
        save(&session, &path).unwrap();
        let bytes = fs::read(&path).unwrap();
        Self { engine, session, folder, path, bytes }
    }

    /// Loads other bytes, which must be refused and change nothing.
    fn refused(&self, bytes: &[u8]) -> &'static str {
        let before = self.session.tokens();
        let path = self.folder.write("file-x7", bytes);
        let error = load(&self.session, &path).expect_err("it must be refused");
        assert_eq!(self.session.tokens(), before);
        assert!(!error.message.contains("file-x7"), "{}", error.message);
        assert!(error.detail.contains("file-x7"), "{}", error.detail);
        error.reason.code()
    }

    fn refused_parts(&self, change: impl Fn(&mut Parts)) -> &'static str {
        let mut parts = Parts::of(&self.bytes);
        change(&mut parts);
        self.refused(&parts.bytes())
    }
}

#[test]
fn a_loaded_session_goes_on_as_if_it_had_never_been_away() {
    for memory in KINDS {
        let folder = TempDir::new();
        let path = folder.path().join("session");
        let engine = FakeEngine { memory, ..FakeEngine::default() }.start();
        let session = engine.new_session();
        go_on(&engine, &session, "Once upon a time ", 30);
        let saved_tokens = session.tokens();
        save(&session, &path).unwrap();
        let expected = go_on(&engine, &session, "there was ", 20);

        let other = FakeEngine { memory, ..FakeEngine::default() }.start();
        let session = other.new_session();
        load(&session, &path).unwrap();
        assert_eq!(session.tokens(), saved_tokens);
        assert!(session.is_templated());
        let output = go_on(&other, &session, "there was ", 20);
        assert_eq!(output.tokens, expected.tokens, "{memory:?}");
        assert_eq!(output.finished.usage, expected.finished.usage);
        assert_eq!(output.finished.usage.num_cached_tokens, saved_tokens.len() - 1);
    }
}

#[test]
fn an_empty_session_can_be_saved_and_loaded() {
    let saved = Saved::new();
    let empty = saved.engine.new_session();
    let path = saved.folder.path().join("empty");
    save(&empty, &path).unwrap();
    load(&saved.session, &path).unwrap();
    assert_eq!(saved.session.num_tokens(), 0);
    let output = go_on(&saved.engine, &saved.session, "It goes on", 4);
    assert_eq!(output.finished.usage.num_prompt_tokens, "It goes on".len());
}

#[test]
fn short_and_long_files_can_be_loaded_in_any_order() {
    let saved = Saved::new();
    let short = saved.session.tokens();
    go_on(&saved.engine, &saved.session, &"much longer ".repeat(10), 40);
    let long = saved.session.tokens();
    let long_path = saved.folder.path().join("long");
    save(&saved.session, &long_path).unwrap();
    for (path, expected) in
        [(&saved.path, &short), (&long_path, &long), (&saved.path, &short), (&saved.path, &short)]
    {
        load(&saved.session, path).unwrap();
        assert_eq!(saved.session.tokens(), *expected);
        let session = saved.engine.new_session();
        load(&session, path).unwrap();
        let output = go_on(&saved.engine, &session, "!", 5);
        assert_eq!(output.finished.usage.num_prompt_tokens, expected.len() + 1);
    }
}

#[test]
fn a_job_that_is_dropped_before_its_turn_is_not_done() {
    let saved = Saved::new();
    let mut parts = RequestParts::text("long", 400);
    parts.stopping.ignore_eos = true;
    let running = saved.engine.submit(in_session(parts, &saved.session, SessionMode::Append, false), None);
    let path = saved.folder.path().join("never");
    drop(saved.session.save(&path, None));
    collect(&running).unwrap();
    // Calls run in order: that one is over.
    save(&saved.session, &saved.path).unwrap();
    assert!(!path.exists());
}
