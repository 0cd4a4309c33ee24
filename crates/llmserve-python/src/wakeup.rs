//! The channel that wakes one event loop, or one blocked thread, for everything that the engine
//! has for it. Engine threads write to it and never need the GIL.

use std::collections::HashSet;
#[cfg(unix)]
use std::io::{PipeReader, PipeWriter, Read, Write};
#[cfg(unix)]
use std::os::fd::AsRawFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use llmserve_engine::{Listener, Notify, Owner};
#[cfg(not(unix))]
use pyo3::exceptions::PyNotImplementedError;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::exit;

/// Collects the keys of handles that have something, and wakes whoever waits for them: a loop
/// that watches `fileno()`, or a thread in `wait()`.
#[pyclass(frozen, module = "llmserve._core")]
pub(crate) struct Wakeup {
    channel: Arc<Channel>,
}

struct Channel {
    owner: Owner,
    state: Mutex<State>,
    signalled: Condvar,
}

#[derive(Default)]
struct State {
    /// A set, so that a blocked loop takes no more memory than it has handles.
    ready: HashSet<u64>,
    /// A signal was given and nobody has drained since. The pipe holds one byte exactly then:
    /// neither writing nor reading it under this lock can block.
    is_signalled: bool,
    is_closed: bool,
    /// Made when a loop asks for it. std's pipe is closed on exec.
    #[cfg(unix)]
    pipe: Option<(PipeReader, PipeWriter)>,
}

impl Channel {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, timeout: Option<Duration>) -> bool {
        let idle = |state: &mut State| !state.is_signalled && !state.is_closed;
        let state = self.lock();
        let state = match timeout {
            None => self.signalled.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner),
            Some(timeout) => {
                let waited = self.signalled.wait_timeout_while(state, timeout, idle);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        state.is_signalled && !state.is_closed
    }
}

impl Notify for Channel {
    fn ready(&self, key: u64) {
        if self.owner.is_current() {
            self.lock().ready.insert(key);
        }
    }

    fn flush(&self) {
        if !self.owner.is_current() {
            return;
        }
        let mut state = self.lock();
        if state.ready.is_empty() || state.is_signalled || state.is_closed {
            return;
        }
        state.is_signalled = true;
        state.write();
        drop(state);
        self.signalled.notify_all();
    }
}

impl State {
    /// At exit, a loop in a daemon thread stays asleep: nothing may run in it any more.
    #[cfg(unix)]
    fn write(&mut self) {
        if exit::is_exiting() {
            return;
        }
        if let Some((_, writer)) = &mut self.pipe
            && writer.write_all(&[1]).is_err()
        {
            self.is_signalled = false;
        }
    }

    #[cfg(not(unix))]
    fn write(&mut self) {}

    #[cfg(unix)]
    fn read(&mut self) -> PyResult<()> {
        match &mut self.pipe {
            Some((reader, _)) if !exit::is_exiting() => Ok(reader.read_exact(&mut [0])?),
            _ => Ok(()),
        }
    }

    #[cfg(not(unix))]
    fn read(&mut self) -> PyResult<()> {
        Ok(())
    }
}

#[pymethods]
impl Wakeup {
    #[new]
    fn new() -> Self {
        Self {
            channel: Arc::new(Channel {
                owner: Owner::current(),
                state: Mutex::default(),
                signalled: Condvar::new(),
            }),
        }
    }

    /// The listener that a handle is submitted with; it names the handle by `key` here.
    fn listener(&self, key: u64) -> PyListener {
        PyListener(Listener { notify: Arc::clone(&self.channel) as Arc<dyn Notify>, key })
    }

    /// The file descriptor that is readable while a signal waits. Raises `NotImplementedError`
    /// where loops cannot watch one (Windows), `ValueError` when closed or in a forked child.
    #[cfg(unix)]
    fn fileno(&self) -> PyResult<i32> {
        if !self.channel.owner.is_current() {
            return Err(PyValueError::new_err("the wake-up belongs to another process"));
        }
        let mut state = self.channel.lock();
        if state.is_closed {
            return Err(PyValueError::new_err("the wake-up is closed"));
        }
        if state.pipe.is_none() {
            state.pipe = Some(std::io::pipe()?);
            if state.is_signalled {
                state.write();
            }
        }
        Ok(state.pipe.as_ref().map_or(-1, |(reader, _)| reader.as_raw_fd()))
    }

    #[cfg(not(unix))]
    fn fileno(&self) -> PyResult<i32> {
        if self.channel.lock().is_closed {
            return Err(PyValueError::new_err("the wake-up is closed"));
        }
        Err(PyNotImplementedError::new_err("no loop can watch a pipe on this system"))
    }

    /// The keys of the handles that have something; the signal is taken back.
    fn drain(&self) -> PyResult<Vec<u64>> {
        if !self.channel.owner.is_current() {
            return Ok(Vec::new());
        }
        let mut state = self.channel.lock();
        if state.is_signalled {
            state.is_signalled = false;
            state.read()?;
        }
        Ok(state.ready.drain().collect())
    }

    /// Blocks, without the GIL, until there is a signal: true; or until the time (in seconds) is
    /// over or it is closed: false.
    #[pyo3(signature = (timeout_s=None))]
    fn wait(&self, py: Python<'_>, timeout_s: Option<f64>) -> PyResult<bool> {
        let timeout = timeout_s.map(Duration::try_from_secs_f64).transpose()?;
        if !self.channel.owner.is_current() {
            return Ok(false);
        }
        Ok(exit::detach(py, || self.channel.wait(timeout)))
    }

    /// Closes the descriptor and ends every `wait()`.
    fn close(&self) {
        // In a forked child the lock may be held for ever; the descriptor goes with the process.
        if !self.channel.owner.is_current() {
            return;
        }
        let mut state = self.channel.lock();
        state.is_closed = true;
        #[cfg(unix)]
        {
            state.pipe = None;
        }
        drop(state);
        self.channel.signalled.notify_all();
    }
}

/// A wake-up and the key that names one handle there.
#[pyclass(frozen, name = "Listener", module = "llmserve._core")]
pub(crate) struct PyListener(pub(crate) Listener);
