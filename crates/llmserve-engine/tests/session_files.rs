//! Session files through the public API, on the deterministic fake model.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that fails panics")]

mod common;
mod support;

use std::fs;
use std::path::{Path, PathBuf};

use common::{FakeEngine, Output, collect, in_session};
use llmserve_engine::model::fake::{self, Memory};
use llmserve_engine::*;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use support::allocation::{Counting, peak_during};
use support::temp_dir::TempDir;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

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
fn parked_cells_are_saved_too() {
    for memory in KINDS {
        let folder = TempDir::new();
        let path = folder.path().join("session");
        let limits = fake::limits(1, 512, KvLayout::PerSequence, 512);
        let engine = FakeEngine { limits, memory, ..FakeEngine::default() }.start();
        let session = engine.new_session();
        go_on(&engine, &session, "A session that is long enough to be parked ", 30);
        collect(&engine.submit(common::greedy("something else altogether", 40), None)).unwrap();
        save(&session, &path).unwrap();
        let info = inspect_session(&path).unwrap();
        assert_eq!(info.num_state_tokens as usize, session.num_tokens() - 1, "{memory:?}");
    }
}

/// Cells of a conversation that goes on from a session's tokens are not the session's.
#[test]
fn a_file_holds_nothing_of_others() {
    let saved = Saved::new();
    let text: String = saved.session.tokens().iter().map(|token| token.0 as u8 as char).collect();
    collect(&saved.engine.submit(common::greedy(&format!("{text} and a secret"), 5), None)).unwrap();
    save(&saved.session, &saved.path).unwrap();
    let parts = Parts::of(&fs::read(&saved.path).unwrap());
    let secret: Vec<u8> = "secret".bytes().flat_map(|byte| i32::from(byte).to_le_bytes()).collect();
    assert!(!parts.state.windows(secret.len()).any(|window| window == secret));
    assert_eq!(parts.state.len() % 4, 0);
    assert!(parts.state.len() / 4 <= parts.tokens.len());
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
fn the_header_tells_of_the_session_without_its_model() {
    let saved = Saved::new();
    let info = inspect_session(&saved.path).unwrap();
    assert_eq!(info.version, 1);
    assert_eq!(info.writer, concat!("llmserve ", env!("CARGO_PKG_VERSION")));
    assert_eq!(info.num_tokens as usize, saved.session.num_tokens());
    assert_eq!(info.description, "fake");
    assert_eq!(info.file_bytes as usize, saved.bytes.len());
    assert!(info.is_templated);
    assert_eq!(info.num_state_tokens, info.num_tokens - 1);
    // The format is the documented one.
    assert_eq!(sealed(saved.bytes[..saved.bytes.len() - CHECKSUM_BYTES].to_vec()), saved.bytes);
    let tokens: Vec<i32> = saved.session.tokens().iter().map(|token| token.0).collect();
    assert_eq!(Parts::of(&saved.bytes).tokens, tokens);
}

#[test]
fn every_truncation_is_refused() {
    let saved = Saved::new();
    for len in 0..saved.bytes.len() {
        let code = saved.refused(&saved.bytes[..len]);
        assert_eq!(code, if len == 0 { "not_a_session" } else { "damaged" }, "{len} bytes");
    }
    assert_eq!(saved.refused(&[saved.bytes.as_slice(), b"x"].concat()), "damaged");
}

#[test]
fn every_flipped_bit_is_refused() {
    let saved = Saved::new();
    for index in 0..saved.bytes.len() {
        for bit in [0, 3, 7] {
            let mut bytes = saved.bytes.clone();
            bytes[index] ^= 1 << bit;
            let expected = match index {
                0..8 => "not_a_session",
                8..12 => "wrong_version",
                _ => "damaged",
            };
            assert_eq!(saved.refused(&bytes), expected, "byte {index}, bit {bit}");
        }
    }
}

#[test]
fn foreign_and_impossible_files_are_refused_by_name() {
    let saved = Saved::new();
    assert_eq!(
        saved.refused(b"just a text file, of some length, that is not a session at all"),
        "not_a_session"
    );
    assert_eq!(saved.refused(&[0; 1000]), "not_a_session");
    assert_eq!(
        saved.refused_parts(|parts| parts.header["model"]["fingerprint"] = json!("ab")),
        "other_model"
    );
    assert_eq!(saved.refused_parts(|parts| parts.tokens[3] = 258), "damaged");
    assert_eq!(saved.refused_parts(|parts| parts.tokens[3] = -1), "damaged");
    assert_eq!(saved.refused_parts(|parts| parts.header["num_tokens"] = json!(1)), "damaged");
    assert_eq!(saved.refused_parts(|parts| parts.header["state"]["num_bytes"] = json!(1)), "damaged");
    assert_eq!(saved.refused_parts(|parts| parts.header["state"]["num_tokens"] = json!(10_000)), "damaged");
    assert_eq!(saved.refused_parts(|parts| parts.header = json!({})), "damaged");
    assert_eq!(saved.refused_parts(|parts| parts.header = json!([[[[]]]])), "damaged");
    assert_eq!(saved.refused_parts(|parts| parts.header["num_tokens"] = json!(-1)), "damaged");
    let long = |parts: &mut Parts| {
        parts.tokens = vec![5; 513];
        parts.header["num_tokens"] = json!(513);
    };
    assert_eq!(saved.refused_parts(long), "too_long");
    // Told only where the file is whole.
    let mut other = Parts::of(&saved.bytes);
    other.header["model"]["fingerprint"] = json!("ab");
    let mut bytes = other.bytes();
    let last = bytes.len() - 40;
    bytes[last] ^= 1;
    assert_eq!(saved.refused(&bytes), "damaged");
}

#[test]
fn nothing_is_allocated_that_the_file_does_not_have() {
    let saved = Saved::new();
    let refused = |bytes: &[u8]| {
        let path = saved.folder.write("impossible", bytes);
        // The same code reads for a load, on a thread of its own that is not counted.
        let (result, peak) = peak_during(|| inspect_session(&path));
        assert_eq!(reason(result), "damaged");
        assert!(peak < 4 << 20, "{peak} bytes");
        assert_eq!(saved.refused(bytes), "damaged");
    };
    for count in [1_u64 << 31, 1 << 40, 1 << 62, u64::MAX] {
        let mut parts = Parts::of(&saved.bytes);
        parts.header["num_tokens"] = json!(count);
        refused(&parts.bytes());
        let mut parts = Parts::of(&saved.bytes);
        parts.header["state"]["num_bytes"] = json!(count);
        refused(&parts.bytes());
    }
    let mut header = b"\x93LLMSV\r\n\x01\0\0\0".to_vec();
    header.extend(u32::MAX.to_le_bytes());
    header.extend([0; 100]);
    refused(&sealed(header));
}

#[test]
fn a_state_of_another_layout_is_left_out_and_the_text_stays() {
    let saved = Saved::new();
    let expected = go_on(&saved.engine, &saved.session, " more", 10);
    let mut parts = Parts::of(&saved.bytes);
    parts.header["state"]["layout"] = json!("another");
    // Were it used, the fake context would compute with these tokens.
    parts.state.fill(1);
    let path = saved.folder.write("other layout", &parts.bytes());
    let engine = FakeEngine::default().start();
    let session = engine.new_session();
    load(&session, &path).unwrap();
    let output = go_on(&engine, &session, " more", 10);
    assert_eq!(output.tokens, expected.tokens);
    assert_eq!(output.finished.usage.num_cached_tokens, 0);
}

#[test]
fn a_state_that_the_context_refuses_is_dropped() {
    for memory in KINDS {
        let saved = Saved::new();
        let expected = go_on(&saved.engine, &saved.session, " more", 10);
        let mut parts = Parts::of(&saved.bytes);
        // A state of another number of tokens than the header says.
        parts.state.truncate(40);
        parts.header["state"]["num_bytes"] = json!(40);
        let path = saved.folder.write("wrong state", &parts.bytes());
        let engine = FakeEngine { memory, ..FakeEngine::default() }.start();
        let session = engine.new_session();
        load(&session, &path).unwrap();
        let output = go_on(&engine, &session, " more", 10);
        assert_eq!(output.tokens, expected.tokens);
        assert_eq!(output.finished.usage.num_cached_tokens, 0);
        assert_eq!(engine.stats().parked_bytes, 0, "{memory:?}");
    }
}

#[test]
fn a_state_that_does_not_fit_into_host_memory_is_left_out() {
    let saved = Saved::new();
    for parking_bytes in [0, 10] {
        let scheduler = SchedulerConfig { parking_bytes, ..SchedulerConfig::default() };
        let engine = FakeEngine { scheduler, ..FakeEngine::default() }.start();
        let session = engine.new_session();
        load(&session, &saved.path).unwrap();
        let output = go_on(&engine, &session, " more", 10);
        assert_eq!(output.finished.usage.num_cached_tokens, 0);
        assert_eq!(engine.stats().parked_bytes, 0);
    }
}

#[test]
fn loaded_cells_wait_for_their_session() {
    for memory in KINDS {
        let setup = FakeEngine {
            memory,
            limits: fake::limits(1, 512, KvLayout::PerSequence, 512),
            // Room for about three states of the requests below.
            scheduler: SchedulerConfig { parking_bytes: 1000, ..SchedulerConfig::default() },
            ..FakeEngine::default()
        };
        let engine = setup.start();
        let session = engine.new_session();
        go_on(&engine, &session, "Once upon a time ", 20);
        let folder = TempDir::new();
        let path = folder.path().join("session");
        save(&session, &path).unwrap();
        let engine = setup.start();
        let session = engine.new_session();
        load(&session, &path).unwrap();
        for index in 0..20 {
            let prompt = format!("Number {index}: {}", "and so on ".repeat(5));
            collect(&engine.submit(common::greedy(&prompt, 5), None)).unwrap();
            // One that begins like the session uses the cells and leaves them.
            collect(&engine.submit(common::greedy("Once upon a time in", 5), None)).unwrap();
        }
        let before = session.num_tokens();
        let output = go_on(&engine, &session, "there was ", 5);
        assert_eq!(output.finished.usage.num_cached_tokens, before - 1, "{memory:?}");
    }
}

/// Nobody knows whether the cells in a file are of its tokens: whoever wrote it alone has the trouble.
#[test]
fn cells_out_of_a_file_are_for_their_session_only() {
    for memory in KINDS {
        let engine = FakeEngine { memory, ..FakeEngine::default() }.start();
        let session = engine.new_session();
        go_on(&engine, &session, "Once upon a time ", 20);
        let folder = TempDir::new();
        let path = folder.path().join("session");
        save(&session, &path).unwrap();

        // Before its session has used them, and after, when they are in a slot.
        for is_used in [false, true] {
            let engine = FakeEngine { memory, ..FakeEngine::default() }.start();
            let session = engine.new_session();
            load(&session, &path).unwrap();
            let go_on = || {
                let before = session.num_tokens();
                let output = go_on(&engine, &session, "there was ", 5);
                // The last one has no cell in the file; the visitor may have left one.
                assert!(output.finished.usage.num_cached_tokens + 1 >= before, "{memory:?}");
            };
            if is_used {
                go_on();
            }
            let tokens = [session.tokens(), vec![TokenId(97)]].concat();
            let visitor =
                collect(&engine.submit(common::request(RequestParts::tokens(tokens, 1)), None)).unwrap();
            assert_eq!(visitor.finished.usage.num_cached_tokens, 0, "{memory:?} {is_used}");
            go_on();
            save(&session, &path).unwrap();
            let info = inspect_session(&path).unwrap();
            assert_eq!(info.num_state_tokens, info.num_tokens - 1, "{memory:?}");
        }
    }
}

#[test]
fn a_file_that_is_loaded_again_and_again_is_kept_once() {
    let saved = Saved::new();
    let engine = FakeEngine::default().start();
    let sessions: Vec<Session> = (0..5).map(|_| engine.new_session()).collect();
    for session in sessions.iter().cycle().take(50) {
        load(session, &saved.path).unwrap();
    }
    let output = go_on(&engine, &sessions[0], " more", 5);
    assert_eq!(output.finished.usage.num_cached_tokens, saved.session.num_tokens() - 1);
    assert_eq!(engine.stats().parked_bytes, Parts::of(&saved.bytes).state.len());
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let saved = Saved::new();
    let before = saved.session.tokens();
    let folder = saved.folder.path();
    let cases = [
        (folder.join("missing"), "not_found"),
        (folder.join("missing/file"), "not_found"),
        (saved.path.join("below a file"), "not_found"),
        (folder.to_path_buf(), "not_readable"),
        (folder.join("x".repeat(300)), "not_readable"),
        (PathBuf::from("nul\0inside"), "not_readable"),
        (PathBuf::new(), "not_found"),
    ];
    for (path, expected) in cases {
        let error = load(&saved.session, &path).unwrap_err();
        assert_eq!(error.reason.code(), expected, "{path:?}: {error}");
        assert!(!error.message.contains('/'), "{error}");
        assert_eq!(saved.session.tokens(), before);
        assert_eq!(reason(inspect_session(&path)), expected);
    }
}

#[test]
fn only_sessions_are_replaced() {
    let saved = Saved::new();
    let folder = saved.folder.path();
    for (name, bytes) in [("notes", "my notes".as_bytes()), ("empty", b""), ("short", b"\x93LLM")] {
        let path = saved.folder.write(name, bytes);
        assert_eq!(reason(save(&saved.session, &path)), "not_replaceable", "{name}");
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
    assert_eq!(reason(save(&saved.session, folder)), "not_replaceable");
    // Also one that is damaged, or of another model.
    let path = saved.folder.write("half", &saved.bytes[..100]);
    save(&saved.session, &path).unwrap();
    assert_eq!(inspect_session(&path).unwrap().num_tokens as usize, saved.session.num_tokens());
    save(&saved.session, &saved.path).unwrap();
    let names: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().ends_with(".tmp")), "{names:?}");
}

#[cfg(unix)]
#[test]
fn a_session_is_for_its_owner_to_read() {
    use std::os::unix::fs::PermissionsExt;

    let saved = Saved::new();
    let mode = || fs::metadata(&saved.path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    // Also where it replaces one that others may read.
    fs::set_permissions(&saved.path, fs::Permissions::from_mode(0o644)).unwrap();
    save(&saved.session, &saved.path).unwrap();
    assert_eq!(mode(), 0o600);
}

#[test]
fn files_that_cannot_be_written_are_named() {
    let saved = Saved::new();
    let folder = saved.folder.path();
    let cases = [
        folder.join("missing/file"),
        saved.path.join("below a file"),
        folder.join("x".repeat(300)),
        PathBuf::from("nul\0inside"),
    ];
    for path in cases {
        let error = save(&saved.session, &path).unwrap_err();
        assert_eq!(error.reason.code(), "not_writable", "{path:?}: {error}");
        assert!(!error.message.contains('/'), "{error}");
    }
    let names = fs::read_dir(folder).unwrap().count();
    assert_eq!(names, 1, "nothing is left behind");
}

#[cfg(unix)]
#[test]
fn links_are_followed_and_pipes_are_not_opened() {
    let saved = Saved::new();
    let folder = saved.folder.path();
    let link = folder.join("link");
    std::os::unix::fs::symlink(&saved.path, &link).unwrap();
    go_on(&saved.engine, &saved.session, "more", 5);
    save(&saved.session, &link).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    let info = inspect_session(&saved.path).unwrap();
    assert_eq!(info.num_tokens as usize, saved.session.num_tokens());
    let pipe = folder.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    assert_eq!(reason(load(&saved.session, &pipe)), "not_readable");
    assert_eq!(reason(save(&saved.session, &pipe)), "not_replaceable");
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
