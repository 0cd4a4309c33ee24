//! Opens an unknown file in a process of its own.
//!
//! llama.cpp ends the process on many contradictions of a file, or of a file and the options that it
//! is loaded with. So a file is opened once with its options in a short-lived process, without
//! allocating its tensors; if that succeeds, both are remembered for the life of this process.
//!
//! Protocol: the command gets the path and the options as JSON as its last arguments. It exits with
//! 0 when the file opens, and with 3 when it was refused, after the line `reason-code<TAB>message` on
//! its standard output and llama.cpp's messages on its standard error. Every other end means that the file
//! would have ended this process.

mod capture;
mod process;

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use process::{run, verdict};
use serde::{Deserialize, Serialize};

use crate::config::{ContextConfig, KvLayout, ModelConfig, WeightsConfig};
use crate::error::{LoadError, LoadErrorReason};
pub use crate::gguf::FileIdentity;
use crate::gguf::ModelFile;
use crate::lock::lock;
use crate::worker::PerProcess;

/// Exit code of a probe that refused the file.
pub const EXIT_REFUSED: i32 = 3;
/// Maximum number of characters in a refusal's message.
const LONGEST_MESSAGE: usize = 2000;
/// Maximum number of remembered passes; beyond that, all are forgotten.
const MOST_PASSED: usize = 4096;

/// A pass: the parts of the model and its adapters, and the options as JSON.
type Pass = (Vec<FileIdentity>, String);

static PASSED: PerProcess<Mutex<HashSet<Pass>>> = PerProcess::new();

/// The options on which llama.cpp may end the process. The others are at their defaults, so that one
/// probe answers for all sizes of the context.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProbeOptions {
    /// Options of the weights.
    pub weights: WeightsConfig,
    /// Options of the context.
    pub context: ContextConfig,
}

impl ProbeOptions {
    /// The options of a model.
    #[must_use]
    pub fn of(config: &ModelConfig) -> Self {
        let default = WeightsConfig::default();
        Self {
            weights: WeightsConfig {
                use_mmap: default.use_mmap,
                use_mlock: default.use_mlock,
                ..config.weights.clone()
            },
            context: ContextConfig {
                context_length: None,
                max_sequences: None,
                kv_cells: None,
                kv_layout: KvLayout::default(),
                threads: None,
                deterministic: false,
                ..config.context.clone()
            },
        }
    }
}

/// A model that is to be opened.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// The model.
    pub file: &'a ModelFile,
    /// The adapters that the options name.
    pub adapters: &'a [ModelFile],
    /// The options with which it is opened.
    pub options: &'a ProbeOptions,
}

/// Makes sure that a probe has opened the candidate once, in its present state.
///
/// Runs `command` with path and options, unless they are known; without a command nothing is done
/// and nothing remembered. Blocks until the probe has ended, which `is_cancelled` cuts short.
///
/// # Errors
/// The reason that the probe gave; `Damaged` if it died (its last words are in the detail);
/// `InvalidOption` if the file opens without the options; `ProbeFailed` if it could not be
/// started, was killed or took more than 60 s; `Cancelled`; `NotReadable` if the file changed
/// meanwhile.
pub fn ensure_probed(
    candidate: Candidate<'_>,
    command: Option<&[OsString]>,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<(), LoadError> {
    let Some(command) = command else {
        return Ok(());
    };
    let result = candidate.ensure(command, is_cancelled);
    match result {
        Err(error) if error.reason == LoadErrorReason::Damaged => {
            Err(candidate.blamed(error, command, is_cancelled))
        }
        result => result,
    }
}

impl Candidate<'_> {
    fn ensure(self, command: &[OsString], is_cancelled: &dyn Fn() -> bool) -> Result<(), LoadError> {
        let [program, arguments @ ..] = command else {
            return Err(failed("the command of the probe is empty"));
        };
        let options = serde_json::to_string(self.options).map_err(|error| {
            let message = "the options cannot be passed to the probe process";
            LoadError::new(LoadErrorReason::InvalidOption, message).with_detail(error.to_string())
        })?;
        let pass = (self.files().flat_map(ModelFile::identity).collect(), options);
        if lock(PASSED.get()).contains(&pass) {
            return Ok(());
        }
        let path = std::path::absolute(self.file.path()).unwrap_or_else(|_| self.file.path().to_path_buf());
        let mut command = Command::new(program);
        command.args(arguments).arg(path).arg(&pass.1);
        verdict(&run(command, is_cancelled)?)?;
        if self.files().any(is_changed) {
            let message = "the file was changed while it was checked: load it again";
            return Err(LoadError::new(LoadErrorReason::NotReadable, message));
        }
        remember(pass);
        Ok(())
    }

    /// Finds the cause of a damage: a file that opens without the options is intact.
    fn blamed(self, error: LoadError, command: &[OsString], is_cancelled: &dyn Fn() -> bool) -> LoadError {
        let options = &ProbeOptions::default();
        let plain = Candidate { adapters: &[], options, ..self };
        if self.options == options || plain.ensure(command, is_cancelled).is_err() {
            return error;
        }
        let message = format!("the model opens, but not with these options: {error}");
        LoadError::new(LoadErrorReason::InvalidOption, message).with_detail(error.detail)
    }

    fn files(&self) -> impl Iterator<Item = &ModelFile> {
        std::iter::once(self.file).chain(self.adapters)
    }
}

/// What a probe process does: opens the file with the options, which are JSON, and reports the outcome
/// by the module's protocol. Returns the code to exit with.
///
/// The process may be ended by llama.cpp inside `open`; it leaves no core file.
pub fn run_probe(
    path: &Path,
    options: &str,
    open: impl FnOnce(&Path, &ProbeOptions) -> Result<(), LoadError>,
) -> i32 {
    disable_core_files();
    let options = serde_json::from_str(options).map_err(|error| {
        failed("the probe process does not understand its options").with_detail(error.to_string())
    });
    let Err(error) = options.and_then(|options| open(path, &options)) else {
        return 0;
    };
    let mut output = io::stdout().lock();
    let option = error.option.as_deref().unwrap_or_default();
    let line = format!("{}\t{option}\t{}\n", error.reason.code(), one_line(&error.message));
    let written = output
        .write_all(line.as_bytes())
        .and_then(|()| output.flush())
        .and_then(|()| io::stderr().write_all(error.detail.as_bytes()));
    // The parent takes any other code for a crash, which is what a lost message amounts to.
    if written.is_ok() { EXIT_REFUSED } else { 1 }
}

fn remember(pass: Pass) {
    let mut passed = lock(PASSED.get());
    if passed.len() >= MOST_PASSED {
        passed.clear();
    }
    passed.insert(pass);
}

fn is_changed(file: &ModelFile) -> bool {
    file.parts.iter().any(|part| match fs::metadata(&part.path) {
        Ok(metadata) => FileIdentity::new(&part.path, &metadata) != part.identity,
        Err(_) => true,
    })
}

fn one_line(message: &str) -> String {
    let characters = message.chars().take(LONGEST_MESSAGE);
    characters.map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

fn failed(message: impl Into<String>) -> LoadError {
    LoadError::new(LoadErrorReason::ProbeFailed, message)
}

/// If this fails, core files stay enabled, which does no harm.
#[cfg(unix)]
fn disable_core_files() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    setrlimit(Resource::Core, none).unwrap_or(());
}

#[cfg(not(unix))]
fn disable_core_files() {}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{KvType, MetadataValue, RopeConfig};

    #[test]
    fn options_reach_the_child_as_they_are() {
        let config = ModelConfig {
            weights: WeightsConfig {
                use_mlock: true,
                metadata_overrides: vec![
                    ("a".to_owned(), MetadataValue::Float(0.1)),
                    ("b".to_owned(), MetadataValue::Int(-1)),
                ],
                ..WeightsConfig::default()
            },
            context: ContextConfig {
                context_length: Some(77),
                kv_type_v: KvType::IQ4_NL,
                rope: RopeConfig { freq_base: Some(0.3), ..RopeConfig::default() },
                ..ContextConfig::default()
            },
            ..ModelConfig::default()
        };
        let given = ProbeOptions::of(&config);
        assert_eq!((given.weights.use_mlock, given.context.context_length), (false, None));
        let json = serde_json::to_string(&given).unwrap();
        let open = |_: &Path, options: &ProbeOptions| {
            assert_eq!(*options, given);
            Ok(())
        };
        assert_eq!(run_probe(Path::new("model.gguf"), &json, open), 0);
    }

    #[test]
    fn the_child_tells_by_the_protocol() {
        let path = Path::new("model.gguf");
        let open =
            |_: &Path, _: &ProbeOptions| Err(LoadError::new(LoadErrorReason::Damaged, "bad\tkey\nhere"));
        assert_eq!(run_probe(path, "{}", open), EXIT_REFUSED);
        assert_eq!(run_probe(path, "{}", |_, _| Ok(())), 0);
        assert_eq!(run_probe(path, "no JSON", |_, _| Ok(())), EXIT_REFUSED);
        assert_eq!(one_line("bad\tkey\nhere"), "bad key here");
    }
}
