//! The output of a child process, read to its end and kept in part.

use std::io::{ErrorKind, Read};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::lock::lock;

/// Number of bytes that are kept.
pub(super) const KEPT_BYTES: usize = 16 << 10;
/// How long output of an ended process may still arrive.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);

/// Which end of an output is kept.
#[derive(Clone, Copy)]
pub(super) enum Keep {
    First,
    Last,
}

/// Reads an output to its end on a thread, keeping a bounded part of it.
pub(super) struct Capture {
    kept: Arc<Mutex<Vec<u8>>>,
    ended: Receiver<()>,
}

impl Capture {
    pub(super) fn start(source: Option<impl Read + Send + 'static>, keep: Keep) -> Self {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let (sender, ended) = mpsc::channel::<()>();
        if let Some(source) = source {
            let kept = Arc::clone(&kept);
            thread::spawn(move || {
                drain(source, keep, &kept);
                drop(sender);
            });
        }
        Self { kept, ended }
    }

    /// Waits for the end of the output, at most `limit`; a short while if it has ended.
    pub(super) fn wait_for_end(&self, limit: Duration) {
        if self.ended.recv_timeout(limit) == Err(RecvTimeoutError::Disconnected) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// What was kept, once the process has ended.
    pub(super) fn text(&self) -> String {
        // A process that the probe left behind may keep the pipe open for ever.
        let (Ok(()) | Err(_)) = self.ended.recv_timeout(DRAIN_LIMIT);
        let kept = lock(&self.kept);
        String::from_utf8_lossy(&kept).into_owned()
    }
}

fn drain(mut source: impl Read, keep: Keep, kept: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 4096];
    loop {
        let count = match source.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let mut kept = lock(kept);
        kept.extend_from_slice(&buffer[..count]);
        let excess = kept.len().saturating_sub(KEPT_BYTES);
        match keep {
            Keep::First => kept.truncate(KEPT_BYTES),
            Keep::Last => drop(kept.drain(..excess)),
        }
    }
}
