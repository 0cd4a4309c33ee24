//! Submitted requests on their way to a prepare thread, directly or by the turns of a session.

use std::sync::Arc;
use std::time::Instant;

use crate::draft::{Drafter, Head};
use crate::error::Error;
use crate::ids::RequestId;
use crate::outbox::Outbox;
use crate::queue::Place;
use crate::request::GenerationRequest;
use crate::session::{SessionMode, SessionTurn, Turn, WaitingRequest};
use crate::worker::pool::{Pace, TaskPool};
use crate::worker::ticket::Ticket;

use super::tokenizer::pace_of;
use super::{Preparer, cancelled};

/// A submitted request with its place in the queue.
pub(crate) struct NewRequest {
    pub(crate) request: GenerationRequest,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) drafter: Option<Box<dyn Drafter>>,
    pub(crate) head: Option<Head>,
    pub(crate) place: Place,
    /// The request's turn, if it belongs to a session.
    pub(crate) turn: Option<SessionTurn>,
    pub(crate) submitted: Instant,
}

/// Has a request prepared.
pub(crate) fn start(pool: &TaskPool<Preparer>, new: NewRequest, ticket: Ticket) {
    // A schema may take seconds to compile.
    let pace = match new.request.constraint {
        Some(_) => Pace::Slow,
        None => pace_of([&new.request.prompt]),
    };
    pool.push_of(new.place.tenant().clone(), pace, move |preparer| preparer.run(new, ticket));
}

/// A request that waits for its turn in a session.
pub(crate) struct InSession {
    pub(crate) new: NewRequest,
    pub(crate) ticket: Ticket,
    pub(crate) mode: SessionMode,
    pub(crate) templated: bool,
    pub(crate) pool: TaskPool<Preparer>,
}

impl WaitingRequest for InSession {
    fn id(&self) -> RequestId {
        self.new.outbox.id
    }

    fn start(self: Box<Self>, turn: Turn) {
        let Self { mut new, ticket, mode, templated, pool } = *self;
        new.turn = Some(SessionTurn { turn, mode, templated });
        start(&pool, new, ticket);
    }

    fn cancel(self: Box<Self>) {
        self.ticket.cancel(cancelled(self.new.request.constraint.is_none(), 0));
    }

    fn refuse(self: Box<Self>, error: Error) {
        self.ticket.refuse(error);
    }
}
