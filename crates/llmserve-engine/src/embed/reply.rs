//! The way of a request's result, which is never lost.

use std::sync::Arc;

use super::request::Embeddings;
use crate::error::Error;
use crate::job::JobSender;
use crate::shared::Shared;

/// Where a request's result goes. Dropped without one, wherever that is, it says why there is none.
pub(super) struct Reply {
    sender: Option<JobSender<Embeddings>>,
    shared: Arc<Shared>,
}

impl Reply {
    pub(super) fn new(sender: JobSender<Embeddings>, shared: Arc<Shared>) -> Self {
        Self { sender: Some(sender), shared }
    }

    /// Whether nobody waits for the result.
    pub(super) fn is_cancelled(&self) -> bool {
        self.sender.as_ref().is_none_or(JobSender::is_cancelled)
    }

    pub(super) fn send(mut self, result: Result<Embeddings, Error>) {
        if let Some(sender) = self.sender.take() {
            sender.send(result);
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(sender) = self.sender.take() {
            sender.send(Err(self.shared.refusal().unwrap_or(Error::ShutDown)));
        }
    }
}
