//! The log lines of the engine and of llama.cpp, kept until a Python thread fetches them. Whoever
//! logs never waits and never needs the GIL.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use llmserve_engine::PerProcess;
use log::{Level, LevelFilter, Metadata, Record};
use pyo3::prelude::*;

use crate::exit;

/// Maximum number of lines that are kept; further ones are counted and dropped.
const MAX_LINES: usize = 4096;
/// The lines that were not fetched, and who waits for them.
#[derive(Default)]
struct Lines {
    queue: Mutex<Queue>,
    filled: Condvar,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<(u8, String)>,
    num_dropped: usize,
}

/// Of each process its own: in a forked child the parent's lock may be held for ever.
static LINES: PerProcess<Lines> = PerProcess::new();

impl Lines {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Bridge;

impl log::Log for Bridge {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let line = (python_level(record.level()), record.args().to_string());
        let lines = LINES.get();
        let mut queue = lines.lock();
        if queue.lines.len() >= MAX_LINES {
            queue.num_dropped += 1;
            return;
        }
        queue.lines.push_back(line);
        drop(queue);
        lines.filled.notify_one();
    }

    fn flush(&self) {}
}

/// The level as Python's `logging` counts.
fn python_level(level: Level) -> u8 {
    match level {
        Level::Error => 40,
        Level::Warn => 30,
        Level::Info => 20,
        Level::Debug => 10,
        Level::Trace => 5,
    }
}

/// Makes the bridge the sink of the `log` facade. If the process has a sink already, that one
/// keeps the lines.
pub(crate) fn install() {
    if log::set_logger(&Bridge).is_ok() {
        log::set_max_level(LevelFilter::Warn);
    }
}

/// Drops lines below a level of Python's `logging` at their source.
#[pyfunction]
pub(crate) fn set_log_level(level: u32) {
    log::set_max_level(match level {
        0..=5 => LevelFilter::Trace,
        6..=10 => LevelFilter::Debug,
        11..=20 => LevelFilter::Info,
        21..=30 => LevelFilter::Warn,
        31..=40 => LevelFilter::Error,
        41.. => LevelFilter::Off,
    });
}

/// The lines since the last call, as (level of Python's `logging`, text). With `block` it waits,
/// without the GIL, until there is one.
#[pyfunction]
pub(crate) fn take_log_records(py: Python<'_>, block: bool) -> Vec<(u8, String)> {
    exit::detach(py, || {
        let lines = LINES.get();
        let mut queue = lines.lock();
        if block {
            let filled = lines.filled.wait_while(queue, |queue| queue.lines.is_empty());
            queue = filled.unwrap_or_else(PoisonError::into_inner);
        }
        take(queue)
    })
}

fn take(mut queue: MutexGuard<'_, Queue>) -> Vec<(u8, String)> {
    let mut lines: Vec<_> = queue.lines.drain(..).collect();
    if queue.num_dropped > 0 {
        let n = std::mem::take(&mut queue.num_dropped);
        lines.push((python_level(Level::Warn), format!("{n} log lines were dropped")));
    }
    lines
}
