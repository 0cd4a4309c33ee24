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

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use capture::{Capture, Keep};
use serde::{Deserialize, Serialize};

use crate::config::{ContextConfig, KvLayout, ModelConfig, WeightsConfig};
use crate::error::{LoadError, LoadErrorReason};
pub use crate::gguf::FileIdentity;
use crate::gguf::ModelFile;
use crate::lock::lock;
use crate::worker::PerProcess;

/// Exit code of a probe that refused the file.
pub const EXIT_REFUSED: i32 = 3;
/// How long a probe may take. A file opens within seconds even from a slow disk.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// How often a cancellation is checked for.
const POLL: Duration = Duration::from_millis(20);
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
        let message = format!("the model opens, but not with these options: {}", error.message);
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
    let line = format!("{}\t{}\n", error.reason.code(), one_line(&error.message));
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

/// How a probe ended, and what it said.
struct Outcome {
    status: ExitStatus,
    output: String,
    errors: String,
}

fn run(mut command: Command, is_cancelled: &dyn Fn() -> bool) -> Result<Outcome, LoadError> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Its last words are to be ggml's, not a debugger's.
    command.env("GGML_NO_BACKTRACE", "1");
    let mut child = command.spawn().map_err(|error| {
        failed(format!("the probe process cannot be started: {}", error.kind()))
            .with_detail(error.to_string())
    })?;
    let output = Capture::start(child.stdout.take(), Keep::First);
    let errors = Capture::start(child.stderr.take(), Keep::Last);
    let status = wait(&mut child, &output, is_cancelled).map_err(|error| {
        end(&mut child);
        error.with_detail(errors.text())
    })?;
    Ok(Outcome { status, output: output.text(), errors: errors.text() })
}

fn wait(
    child: &mut Child,
    output: &Capture,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<ExitStatus, LoadError> {
    let deadline = Instant::now() + TIME_LIMIT;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) => {}
            Err(error) => {
                return Err(failed(format!("the probe process cannot be watched: {}", error.kind())));
            }
        }
        if is_cancelled() {
            return Err(LoadError::new(LoadErrorReason::Cancelled, "the load was cancelled"));
        }
        if Instant::now() >= deadline {
            let seconds = TIME_LIMIT.as_secs();
            return Err(failed(format!("opening the file took more than {seconds} s")));
        }
        // The end of its output is nearly always its end: then there is no pause.
        output.wait_for_end(POLL);
    }
}

fn end(child: &mut Child) {
    // Both fail only for a process that has ended, which is what is wanted.
    if child.kill().is_ok() {
        drop(child.wait());
    }
}

fn verdict(outcome: &Outcome) -> Result<(), LoadError> {
    match outcome.status.code() {
        Some(0) => Ok(()),
        Some(EXIT_REFUSED) => Err(refusal(&outcome.output)
            .unwrap_or_else(|| failed("the probe process refused the file without a reason"))
            .with_detail(outcome.errors.clone())),
        code => {
            let how = code.map_or_else(|| signal(outcome.status), |code| format!("exit code {code}"));
            let message = format!("the file ends the process that opens it ({how})");
            let reason = if is_crash(outcome.status) {
                LoadErrorReason::Damaged
            } else {
                LoadErrorReason::ProbeFailed
            };
            Err(LoadError::new(reason, message).with_detail(outcome.errors.clone()))
        }
    }
}

/// The error in a probe's first line.
fn refusal(output: &str) -> Option<LoadError> {
    let (code, message) = output.lines().next()?.split_once('\t')?;
    Some(LoadError::new(LoadErrorReason::from_code(code)?, one_line(message)))
}

fn one_line(message: &str) -> String {
    let characters = message.chars().take(LONGEST_MESSAGE);
    characters.map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

fn failed(message: impl Into<String>) -> LoadError {
    LoadError::new(LoadErrorReason::ProbeFailed, message)
}

#[cfg(unix)]
fn signal(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    status.signal().map_or_else(|| "unknown end".to_owned(), |signal| format!("signal {signal}"))
}

/// Whether the process ended itself. Another process may have killed it, for example for lack of memory.
#[cfg(unix)]
fn is_crash(status: ExitStatus) -> bool {
    use rustix::process::Signal;
    use std::os::unix::process::ExitStatusExt;
    let crashes = [Signal::ABORT, Signal::BUS, Signal::FPE, Signal::SEGV].map(Signal::as_raw);
    status.signal().is_some_and(|signal| crashes.contains(&signal))
}

#[cfg(not(unix))]
fn signal(_status: ExitStatus) -> String {
    "unknown end".to_owned()
}

#[cfg(not(unix))]
fn is_crash(status: ExitStatus) -> bool {
    // An NTSTATUS of severity "error", which llama.cpp's own exit codes are not.
    status.code().is_some_and(|code| code.cast_unsigned() >= 0xC000_0000)
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

    fn shell(script: &str, is_cancelled: &dyn Fn() -> bool) -> Result<(), LoadError> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        run(command, is_cancelled).and_then(|outcome| verdict(&outcome))
    }

    fn refused(script: &str) -> LoadError {
        shell(script, &|| false).expect_err("the probe passed")
    }

    #[test]
    fn a_probe_that_ends_well_passes() {
        assert_eq!(shell("echo chatter; echo noise >&2", &|| false), Ok(()));
    }

    #[test]
    fn a_refusal_keeps_its_reason() {
        let error = refused("printf 'unsupported\\tarchitecture `x` is not known\\n'; echo log >&2; exit 3");
        assert_eq!(error.reason, LoadErrorReason::Unsupported);
        assert_eq!(error.message, "architecture `x` is not known");
        assert_eq!(error.detail, "log\n");
    }

    #[test]
    fn a_crash_is_told_without_its_words() {
        let error = refused("echo secret/path.cpp:1: assert >&2; kill -ABRT $$");
        assert_eq!(error.reason, LoadErrorReason::Damaged);
        assert_eq!(error.message, "the file ends the process that opens it (signal 6)");
        assert_eq!(error.detail, "secret/path.cpp:1: assert\n");
    }

    #[test]
    fn a_killed_probe_says_nothing_of_the_file() {
        assert_eq!(refused("kill -KILL $$").reason, LoadErrorReason::ProbeFailed);
        assert_eq!(refused("kill -SEGV $$").reason, LoadErrorReason::Damaged);
    }

    #[test]
    fn other_ends_are_failures() {
        for script in ["exit 1", "exit 3", "echo nonsense; exit 3", "printf 'no-code\\tx\\n'; exit 3"] {
            assert_eq!(refused(script).reason, LoadErrorReason::ProbeFailed, "{script}");
        }
    }

    #[test]
    fn a_missing_program_is_a_failure() {
        let outcome = run(Command::new("/nonexistent/program"), &|| false);
        let error = outcome.err().unwrap();
        assert_eq!(error.reason, LoadErrorReason::ProbeFailed);
        assert_eq!(error.message, "the probe process cannot be started: entity not found");
    }

    #[test]
    fn output_beyond_the_bound_is_dropped() {
        let error = refused("yes error | head -c 200000 >&2; echo last >&2; exit 1");
        assert_eq!(error.detail.len(), capture::KEPT_BYTES);
        assert!(error.detail.ends_with("last\n"));
    }

    #[test]
    fn a_cancelled_probe_is_ended() {
        let error = shell("exec sleep 600", &|| true).unwrap_err();
        assert_eq!(error.reason, LoadErrorReason::Cancelled);
    }

    #[test]
    fn a_process_left_behind_does_not_hold_up() {
        // The reader of the output waits a bounded time for its end.
        assert_eq!(shell("sleep 5 & exit 0", &|| false), Ok(()));
    }

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
