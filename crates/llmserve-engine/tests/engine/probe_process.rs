//! The probe runs once for a file in its present state.
#![cfg(unix)]

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use llmserve_engine::gguf::{ModelFile, check};
use llmserve_engine::probe::{Candidate, ProbeOptions, ensure_probed};
use llmserve_engine::{LoadError, LoadErrorReason, MetadataValue};

use crate::support::gguf_writer::{Gguf, Meta, text};
use crate::support::temp_dir::TempDir;

/// A probe that adds a line to `log`, runs `script` with the file in `$1` and the options in `$2`.
fn probe(log: &Path, script: &str) -> Vec<OsString> {
    let script = format!("echo run >> '{}'; {script}", log.display());
    ["/bin/sh", "-c", &script, "probe"].map(OsString::from).into()
}

fn ensure(file: &ModelFile, command: Option<&[OsString]>) -> Result<(), LoadError> {
    ensure_with(file, &ProbeOptions::default(), command)
}

fn ensure_with(
    file: &ModelFile,
    options: &ProbeOptions,
    command: Option<&[OsString]>,
) -> Result<(), LoadError> {
    ensure_probed(Candidate { file, adapters: &[], options }, command, &|| false)
}

fn overriding(key: &str) -> ProbeOptions {
    let mut options = ProbeOptions::default();
    options.weights.metadata_overrides = vec![(key.to_owned(), MetadataValue::Int(0))];
    options
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
    assert_eq!(ensure(&file, None), Ok(()));
    assert_eq!(num_runs(&log), 0);
    for _ in 0..3 {
        assert_eq!(ensure(&file, Some(&command)), Ok(()));
    }
    assert_eq!(num_runs(&log), 1);

    let other = Gguf::model().with("test.more", Meta::U8(1)).write().bytes;
    let changed = check(&directory.write("model.gguf", &other)).unwrap();
    assert_eq!(ensure(&changed, Some(&command)), Ok(()));
    assert_eq!(num_runs(&log), 2);
}

#[test]
fn a_file_that_failed_is_probed_again() {
    let directory = TempDir::new();
    let log = directory.path().join("log");
    let file = check(&directory.write("model.gguf", &Gguf::model().write().bytes)).unwrap();
    let command = probe(&log, "printf 'unsupported\\t\\tno such architecture\\n'; exit 3");
    for _ in 0..2 {
        let error = ensure(&file, Some(&command)).unwrap_err();
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
    let error = ensure(&file, Some(&command)).unwrap_err();
    assert_eq!(error.reason, LoadErrorReason::NotReadable);
    assert!(error.message.contains("was changed"), "{error}");
}

#[test]
fn a_pass_holds_for_the_options_it_was_made_with() {
    let directory = TempDir::new();
    let log = directory.path().join("log");
    let file = check(&directory.write("model.gguf", &Gguf::model().write().bytes)).unwrap();
    let command = probe(&log, "true");
    for (options, runs) in [(ProbeOptions::default(), 1), (overriding("a"), 2), (overriding("b"), 3)] {
        for _ in 0..2 {
            assert_eq!(ensure_with(&file, &options, Some(&command)), Ok(()));
            assert_eq!(num_runs(&log), runs);
        }
    }
}

#[test]
fn an_adapter_that_changes_is_probed_again() {
    let directory = TempDir::new();
    let log = directory.path().join("log");
    let image = Gguf::model().write().bytes;
    let file = check(&directory.write("model.gguf", &image)).unwrap();
    let command = probe(&log, "true");
    let options = ProbeOptions::default();
    for runs in [1, 1, 2] {
        if num_runs(&log) < runs {
            let adapter = Gguf::model().with("test.text", text(&"x".repeat(runs)));
            directory.write("adapter.gguf", &adapter.write().bytes);
        }
        let adapters = [check(&directory.path().join("adapter.gguf")).unwrap()];
        let candidate = Candidate { file: &file, adapters: &adapters, options: &options };
        assert_eq!(ensure_probed(candidate, Some(&command), &|| false), Ok(()));
        assert_eq!(num_runs(&log), runs);
    }
}

#[test]
fn options_are_to_blame_where_the_file_opens_without_them() {
    let directory = TempDir::new();
    let log = directory.path().join("log");
    let file = check(&directory.write("model.gguf", &Gguf::model().write().bytes)).unwrap();
    let crash = probe(&log, "echo assert >&2; kill -ABRT $$");
    let error = ensure_with(&file, &overriding("a"), Some(&crash)).unwrap_err();
    assert_eq!((error.reason, num_runs(&log)), (LoadErrorReason::Damaged, 2));

    let picky = probe(&log, "case $2 in *bad_key*) echo assert >&2; kill -ABRT $$;; esac");
    let error = ensure_with(&file, &overriding("bad_key"), Some(&picky)).unwrap_err();
    assert_eq!(error.reason, LoadErrorReason::InvalidOption, "{error}");
    assert!(error.message.starts_with("the model opens, but not with these options"), "{error}");
    assert_eq!(error.detail, "assert\n");
    assert_eq!(ensure_with(&file, &overriding("good_key"), Some(&picky)), Ok(()));
}
