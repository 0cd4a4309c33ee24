//! Where work goes in: for the prepare threads, and for the thread that reads and writes session files.

use std::sync::{Arc, Mutex};

use crossbeam_channel::Sender;

use crate::error::Error;
use crate::lock::lock;
use crate::prepare::Job;
use crate::process::Owner;
use crate::session::FileJob;
use crate::shared::Shared;

/// Why an engine of another process cannot be used.
pub(crate) const FORKED: &str = "it belongs to the process that this one was forked from";

/// The way to an engine's threads, shared by its handle and its sessions.
pub(crate) struct Jobs {
    pub(crate) owner: Owner,
    pub(crate) shared: Arc<Shared>,
    /// The most jobs that wait for a prepare thread.
    limit: usize,
    /// Taken at shutdown, so that the threads end.
    senders: Mutex<Option<Senders>>,
}

/// The channels themselves.
pub(crate) struct Senders {
    pub(crate) prepare: Sender<Job>,
    pub(crate) files: Sender<FileJob>,
}

impl Jobs {
    pub(crate) fn new(shared: Arc<Shared>, limit: usize, senders: Senders) -> Self {
        Self { owner: Owner::current(), shared, limit, senders: Mutex::new(Some(senders)) }
    }

    /// Hands work to the prepare threads, or answers why it cannot be taken.
    pub(crate) fn start(&self, job: Job) {
        // In a forked child the lock may be held for ever.
        let unsent = if self.owner.is_current() { self.offer(job) } else { Some(job) };
        if let Some(job) = unsent {
            job.refuse(&self.shared, self.refusal());
        }
    }

    /// Hands work over unless too much waits; what was not taken comes back.
    fn offer(&self, job: Job) -> Option<Job> {
        match &*lock(&self.senders) {
            Some(senders) if senders.prepare.len() < self.limit => {
                senders.prepare.send(job).map_err(|unsent| unsent.0).err()
            }
            Some(_) | None => Some(job),
        }
    }

    /// Hands on work that was taken before and has waited for its turn. It comes back after a
    /// shutdown.
    pub(crate) fn resume(&self, job: Job) -> Result<(), Job> {
        match &*lock(&self.senders) {
            Some(senders) => senders.prepare.send(job).map_err(|unsent| unsent.0),
            None => Err(job),
        }
    }

    /// Hands on the reading or writing of a file. It comes back after a shutdown.
    pub(crate) fn start_file(&self, job: FileJob) -> Result<(), FileJob> {
        match &*lock(&self.senders) {
            Some(senders) => senders.files.send(job).map_err(|unsent| unsent.0),
            None => Err(job),
        }
    }

    /// Why work was not taken.
    pub(crate) fn refusal(&self) -> Error {
        if !self.owner.is_current() {
            return Error::EngineDead { reason: FORKED };
        }
        self.shared.refusal().unwrap_or_else(|| self.shared.queue.full())
    }

    /// Takes no more work: the threads end once they have done what waits.
    pub(crate) fn close(&self) {
        drop(lock(&self.senders).take());
    }
}
