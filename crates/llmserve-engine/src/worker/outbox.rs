//! A request's own outbox: the engine puts events in and never waits; the client takes them out.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crossbeam_channel::Sender;

use crate::command::Command;
use crate::event::Event;
use crate::ids::RequestId;
use crate::lock::lock;
use crate::notify::{Listener, PendingFlush};
use crate::process::Owner;
use crate::request::Delivery;
use crate::session::Session;

/// The events of one request that its client has not taken yet.
pub(crate) struct Outbox {
    pub(crate) id: RequestId,
    listener: Option<Listener>,
    delivery: Delivery,
    aborted: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    events: VecDeque<Event>,
    /// The terminal event was put in: everything after it is dropped.
    is_over: bool,
}

impl Outbox {
    pub(crate) fn new(id: RequestId, delivery: Delivery, listener: Option<Listener>) -> Self {
        Self {
            id,
            listener,
            delivery,
            aborted: AtomicBool::new(false),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Whether the client wants no more.
    pub(crate) fn is_aborted(&self) -> bool {
        self.aborted.load(Ordering::Acquire)
    }

    /// Asks for the end; true the first time.
    pub(crate) fn set_aborted(&self) -> bool {
        !self.aborted.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.lock().is_over
    }

    /// Puts an event in; its receiver is woken with the step's other receivers.
    pub(crate) fn push(&self, event: Event, pending: &mut PendingFlush) {
        if self.put(event)
            && let Some(listener) = &self.listener
        {
            pending.tell(listener);
        }
    }

    /// Puts an event in and wakes its receiver at once.
    pub(crate) fn push_now(&self, event: Event) {
        if self.put(event)
            && let Some(listener) = &self.listener
        {
            listener.wake();
        }
    }

    /// True if the receiver is to be told.
    fn put(&self, event: Event) -> bool {
        let mut state = self.lock();
        if state.is_over {
            return false;
        }
        let tell = match &event {
            Event::Finished(_) | Event::Failed(_) => {
                state.is_over = true;
                true
            }
            Event::Accepted { .. } => true,
            Event::Started { .. } | Event::Delta(_) => self.delivery == Delivery::Streaming,
        };
        match (event, state.events.back_mut()) {
            // A slow reader gets one larger delta; no record is lost.
            (Event::Delta(new), Some(Event::Delta(last))) => last.tokens.extend(new.tokens),
            (event, _) => state.events.push_back(event),
        }
        drop(state);
        self.changed.notify_all();
        tell
    }

    fn take(&self) -> Vec<Event> {
        self.lock().events.drain(..).collect()
    }

    fn recv(&self) -> Option<Event> {
        let mut state = self.lock();
        loop {
            if let Some(event) = state.events.pop_front() {
                return Some(event);
            }
            if state.is_over {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change of the state is complete before the lock is released.
        lock(&self.state)
    }
}

/// A submitted request. Dropping it aborts the request unless it is over.
pub struct RequestHandle {
    outbox: Arc<Outbox>,
    owner: Owner,
    commands: Sender<Command>,
    session: Option<Session>,
}

impl RequestHandle {
    pub(crate) fn new(
        outbox: Arc<Outbox>,
        owner: Owner,
        commands: Sender<Command>,
        session: Option<Session>,
    ) -> Self {
        Self { outbox, owner, commands, session }
    }

    /// The request's id, unique within its engine.
    #[must_use]
    pub fn id(&self) -> RequestId {
        self.outbox.id
    }

    /// Takes what is there now, without waiting. Adjacent deltas have been merged.
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
        if !self.owner.is_current() || self.outbox.is_over() || !self.outbox.set_aborted() {
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
