//! A submission, and the handle on it.

use std::sync::Arc;

use crossbeam_channel::Sender;

use crate::command::Command;
use crate::draft::{Drafter, Head};
use crate::event::Event;
use crate::ids::RequestId;
use crate::outbox::Outbox;
use crate::request::GenerationRequest;
use crate::session::{Session, SessionUse};
use crate::shared::Shared;
use crate::tenant::Tenant;

/// A request and what goes with it. A [`GenerationRequest`] alone is one too.
pub struct Submission {
    /// What is to be generated.
    pub request: GenerationRequest,
    /// The session that the request continues and that receives its tokens.
    pub session: Option<SessionUse>,
    /// What holds the draft context open, for [`crate::DraftMethod::Head`].
    pub head: Option<Head>,
    /// Guesses the next tokens in place of [`crate::Drafting`].
    pub drafter: Option<Box<dyn Drafter>>,
    /// Whose it is.
    pub tenant: Tenant,
}

impl From<GenerationRequest> for Submission {
    fn from(request: GenerationRequest) -> Self {
        Self { request, session: None, head: None, drafter: None, tenant: Tenant::default() }
    }
}

/// A submitted request. Dropping it aborts the request unless it is over.
pub struct RequestHandle {
    outbox: Arc<Outbox>,
    shared: Arc<Shared>,
    commands: Sender<Command>,
    session: Option<Session>,
}

impl RequestHandle {
    pub(super) fn new(
        outbox: Arc<Outbox>,
        shared: Arc<Shared>,
        commands: Sender<Command>,
        session: Option<Session>,
    ) -> Self {
        Self { outbox, shared, commands, session }
    }

    /// The request's id, unique within its engine.
    #[must_use]
    pub fn id(&self) -> RequestId {
        self.outbox.id
    }

    /// Takes the events that are there, without waiting. Adjacent deltas have been merged.
    #[must_use]
    pub fn take(&self) -> Vec<Event> {
        self.outbox.take()
    }

    /// Waits for the next event; `None` after the terminal one.
    #[must_use]
    pub fn recv(&self) -> Option<Event> {
        self.outbox.recv()
    }

    /// Ends the request within one step, whatever its phase: it finishes as cancelled.
    pub fn abort(&self) {
        if !self.shared.owner().is_current() || self.outbox.is_over() || !self.outbox.set_aborted() {
            return;
        }
        if self.session.as_ref().is_some_and(|session| session.cancel_waiting(self.outbox.id)) {
            return;
        }
        if self.commands.send(Command::Wake).is_err() {
            log::debug!("request {} was aborted after its engine had ended", self.outbox.id.0);
        }
    }
}

impl Drop for RequestHandle {
    fn drop(&mut self) {
        self.abort();
    }
}
