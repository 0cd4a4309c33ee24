//! The probe runs once for a file in its present state.
#![cfg(unix)]

mod support;

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use llmserve_engine::LoadErrorReason;
use llmserve_engine::gguf::check;
use llmserve_engine::probe::ensure_probed;
use support::gguf_writer::{Gguf, Meta};
use support::temp_dir::TempDir;

/// A probe that adds a line to `log`, runs `script` with the file in `$1`.
fn probe(log: &Path, script: &str) -> Vec<OsString> {
    let script = format!("echo run >> '{}'; {script}", log.display());
    ["/bin/sh", "-c", &script, "probe"].map(OsString::from).into()
}

fn num_runs(log: &Path) -> usize {
    fs::read_to_string(log).map_or(0, |text| text.lines().count())
}

#[test]
fn a_file_that_passed_is_not_probed_again_until_it_changes() {
    let directory = TempDir::new();
    let log = directory.path().join("log");
    let command = probe(&log, "test -f \"$1\"");
    let image = Gguf::model().write().bytes;
    let file = check(&directory.write("model.gguf", &image)).unwrap();
    assert_eq!(ensure_probed(&file, None, &|| false), Ok(()));
    assert_eq!(num_runs(&log), 0);
    for _ in 0..3 {
        assert_eq!(ensure_probed(&file, Some(&command), &|| false), Ok(()));
    }
    assert_eq!(num_runs(&log), 1);

    let other = Gguf::model().with("test.more", Meta::U8(1)).write().bytes;
    let changed = check(&directory.write("model.gguf", &other)).unwrap();
    assert_eq!(ensure_probed(&changed, Some(&command), &|| false), Ok(()));
    assert_eq!(num_runs(&log), 2);
}

#[test]
fn a_file_that_failed_is_probed_again() {
    let directory = TempDir::new();
    let log = directory.path().join("log");
    let file = check(&directory.write("model.gguf", &Gguf::model().write().bytes)).unwrap();
    let command = probe(&log, "printf 'unsupported\\tno such architecture\\n'; exit 3");
    for _ in 0..2 {
        let error = ensure_probed(&file, Some(&command), &|| false).unwrap_err();
        assert_eq!(error.reason, LoadErrorReason::Unsupported);
        assert_eq!(error.message, "no such architecture");
    }
    assert_eq!(num_runs(&log), 2);
}

#[test]
fn a_file_that_changes_meanwhile_is_not_trusted() {
    let directory = TempDir::new();
    let log = directory.path().join("log");
    let file = check(&directory.write("model.gguf", &Gguf::model().write().bytes)).unwrap();
    let command = probe(&log, "echo more >> \"$1\"");
    let error = ensure_probed(&file, Some(&command), &|| false).unwrap_err();
    assert_eq!(error.reason, LoadErrorReason::NotReadable);
    assert!(error.message.contains("was changed"), "{error}");
}
