//! The outbox of a request: the engine puts events in and never waits; the client takes them out.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::event::Event;
use crate::ids::RequestId;
use crate::request::Delivery;

use super::lock::lock;
use super::notify::{Listener, PendingFlush};

/// The events of one request that its client has not taken yet.
pub(crate) struct Outbox {
    pub(crate) id: RequestId,
    listener: Option<Listener>,
    delivery: Delivery,
    aborted: AtomicBool,
    contents: Mutex<Contents>,
    changed: Condvar,
}

#[derive(Default)]
struct Contents {
    events: VecDeque<Event>,
    /// Number of threads in [`Outbox::recv`]: waking nobody would cost a system call, too.
    num_waiting: usize,
    /// Whether the terminal event has been put in: everything after it is dropped.
    is_over: bool,
}

impl Outbox {
    pub(crate) fn new(id: RequestId, delivery: Delivery, listener: Option<Listener>) -> Self {
        Self {
            id,
            listener,
            delivery,
            aborted: AtomicBool::new(false),
            contents: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Whether the client has given the request up.
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
        let mut contents = self.lock();
        if contents.is_over {
            return false;
        }
        let tell = match &event {
            Event::Finished(_) | Event::Failed(_) => {
                contents.is_over = true;
                true
            }
            Event::Accepted { .. } => true,
            Event::Started { .. } | Event::Progress { .. } | Event::Prompt(_) | Event::Delta(_) => {
                self.delivery == Delivery::Streaming
            }
        };
        match (event, contents.events.back_mut()) {
            // A slow reader gets one larger event; no record is lost.
            (Event::Prompt(new), Some(Event::Prompt(last))) => last.extend(new),
            (Event::Delta(new), Some(Event::Delta(last))) => last.tokens.extend(new.tokens),
            (event, _) => contents.events.push_back(event),
        }
        let is_awaited = contents.num_waiting > 0;
        drop(contents);
        if is_awaited {
            self.changed.notify_all();
        }
        tell
    }

    pub(crate) fn take(&self) -> Vec<Event> {
        self.lock().events.drain(..).collect()
    }

    /// Waits for the next event; `None` after the terminal one.
    pub(crate) fn recv(&self) -> Option<Event> {
        let mut contents = self.lock();
        loop {
            if let Some(event) = contents.events.pop_front() {
                return Some(event);
            }
            if contents.is_over {
                return None;
            }
            contents.num_waiting += 1;
            contents = self.changed.wait(contents).unwrap_or_else(PoisonError::into_inner);
            contents.num_waiting -= 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        // Every change of the contents is complete before the lock is released.
        lock(&self.contents)
    }
}
