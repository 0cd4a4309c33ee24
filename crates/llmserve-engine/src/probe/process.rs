//! Runs a probe process, and what its end says of the file.

use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::capture::{Capture, Keep};
use super::{EXIT_REFUSED, failed, one_line};
use crate::error::{LoadError, LoadErrorReason};

/// How long a probe may take. A file opens within seconds even from a slow disk.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// How often a cancellation is checked for.
const POLL: Duration = Duration::from_millis(20);

/// How a probe ended, and what it said.
pub(super) struct Outcome {
    status: ExitStatus,
    output: String,
    errors: String,
}

pub(super) fn run(mut command: Command, is_cancelled: &dyn Fn() -> bool) -> Result<Outcome, LoadError> {
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

pub(super) fn verdict(outcome: &Outcome) -> Result<(), LoadError> {
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
    let (code, rest) = output.lines().next()?.split_once('\t')?;
    let (option, message) = rest.split_once('\t')?;
    let error = LoadError::new(LoadErrorReason::from_code(code)?, one_line(message));
    Some(LoadError { option: (!option.is_empty()).then(|| option.to_owned()), ..error })
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

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::capture;

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
        let error =
            refused("printf 'unsupported\\t\\tarchitecture `x` is not known\\n'; echo log >&2; exit 3");
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
        for script in ["exit 1", "exit 3", "echo nonsense; exit 3", "printf 'no-code\\t\\tx\\n'; exit 3"] {
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
}
