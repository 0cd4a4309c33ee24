//! The calls of one session, one after the other.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::error::Error;
use crate::ids::{RequestId, TokenId};
use crate::job::JobSender;
use crate::jobs::Jobs;
use crate::kv::SessionKey;
use crate::lock::lock;
use crate::prepare::{self, NewRequest};

use super::Inner;
use super::storage::{FileJob, FileTask};

/// The most calls of one session that wait; requests are bounded by the engine's queue as well.
const MAX_WAITING: usize = 1024;

/// A session's tokens, and who waits for them.
#[derive(Default)]
pub(super) struct State {
    pub(super) tokens: Vec<TokenId>,
    pub(super) is_templated: bool,
    /// What it uses cells by that came out of a file, if there are such.
    key: Option<SessionKey>,
    /// A call has the turn.
    is_busy: bool,
    waiting: VecDeque<Call>,
}

impl State {
    /// A state with the tokens of another, and nobody who waits.
    pub(super) fn of(other: &Self) -> Self {
        Self { tokens: other.tokens.clone(), is_templated: other.is_templated, ..Self::default() }
    }
}

/// A call of a session.
pub(crate) enum Call {
    Request(Box<NewRequest>),
    Save(PathBuf, JobSender<()>),
    Load(PathBuf, JobSender<()>),
    Reset(JobSender<()>),
}

/// The right of one call to use its session. Dropping it, wherever that happens, starts the next call.
pub(crate) struct Turn {
    /// `None` only when it was handed on.
    session: Option<Arc<Inner>>,
}

/// Queues a call, or starts it if it is the only one.
pub(super) fn enter(session: &Arc<Inner>, call: Call) {
    let mut state = lock(&session.state);
    if state.waiting.len() >= MAX_WAITING {
        drop(state);
        return call.refuse(&session.jobs, too_many());
    }
    state.waiting.push_back(call);
    let is_first = !std::mem::replace(&mut state.is_busy, true);
    drop(state);
    if is_first {
        start_next(session);
    }
}

/// Gives the turn to the call that waits longest. Calls that are over at once are followed by the next.
fn start_next(session: &Arc<Inner>) {
    loop {
        let mut state = lock(&session.state);
        let Some(call) = state.waiting.pop_front() else {
            state.is_busy = false;
            return;
        };
        drop(state);
        let turn = Turn { session: Some(Arc::clone(session)) };
        match call.start(turn, &session.jobs) {
            None => return,
            // Not dropped: that would come back here, once deeper for each call.
            Some(turn) => turn.hand_on(),
        }
    }
}

/// Ends a request that its client gave up, if it is waiting.
pub(super) fn cancel_waiting(session: &Arc<Inner>, id: RequestId) -> bool {
    let mut state = lock(&session.state);
    let is_it = |call: &Call| matches!(call, Call::Request(new) if new.outbox.id == id);
    let index = state.waiting.iter().position(is_it);
    let call = index.and_then(|index| state.waiting.remove(index));
    drop(state);
    let Some(Call::Request(new)) = call else {
        return false;
    };
    let shared = &session.jobs.shared;
    shared.num_preparing.fetch_sub(1, Ordering::Relaxed);
    prepare::cancel(shared, &new.outbox, &new.request, 0);
    true
}

impl Call {
    /// Begins the call; the turn comes back if it is over already.
    fn start(self, turn: Turn, jobs: &Jobs) -> Option<Turn> {
        match self {
            Self::Request(mut new) => {
                new.turn = Some(turn);
                let prepare::Job::Request(mut unsent) = jobs.resume(prepare::Job::Request(new)).err()? else {
                    return None;
                };
                let turn = unsent.turn.take();
                prepare::Job::Request(unsent).refuse(&jobs.shared, jobs.refusal());
                turn
            }
            Self::Save(path, result) => start_file(FileTask::Save, path, result, turn, jobs),
            Self::Load(path, result) => start_file(FileTask::Load, path, result, turn, jobs),
            Self::Reset(result) => {
                if !result.is_cancelled() {
                    turn.replace(Vec::new(), false, None);
                    result.send(Ok(()));
                }
                Some(turn)
            }
        }
    }

    /// Answers a call that cannot be made.
    pub(super) fn refuse(self, jobs: &Jobs, error: Error) {
        match self {
            Self::Request(new) => prepare::Job::Request(new).refuse(&jobs.shared, error),
            Self::Save(_, result) | Self::Load(_, result) | Self::Reset(result) => result.send(Err(error)),
        }
    }
}

fn start_file(task: FileTask, path: PathBuf, result: JobSender<()>, turn: Turn, jobs: &Jobs) -> Option<Turn> {
    if result.is_cancelled() {
        return Some(turn);
    }
    let FileJob { result, turn, .. } = jobs.start_file(FileJob { task, path, result, turn }).err()?;
    result.send(Err(jobs.refusal()));
    Some(turn)
}

impl Turn {
    /// The session's tokens, and whether they are of a chat template.
    pub(crate) fn contents(&self) -> (Vec<TokenId>, bool) {
        self.session.as_ref().map_or_else(Default::default, |session| {
            let state = lock(&session.state);
            (state.tokens.clone(), state.is_templated)
        })
    }

    /// Whether the session's tokens are of a chat template.
    pub(crate) fn is_templated(&self) -> bool {
        self.session.as_ref().is_some_and(|session| lock(&session.state).is_templated)
    }

    /// What the session uses cells by that came out of a file.
    pub(crate) fn key(&self) -> Option<SessionKey> {
        self.session.as_ref().and_then(|session| lock(&session.state).key.clone())
    }

    /// Makes the session hold these tokens.
    pub(crate) fn set(&self, tokens: Vec<TokenId>, is_templated: bool) {
        self.replace(tokens, is_templated, self.key());
    }

    /// Makes the session hold tokens out of a file, whose cells are kept while the key is.
    pub(super) fn replace(&self, tokens: Vec<TokenId>, is_templated: bool, key: Option<SessionKey>) {
        if let Some(session) = &self.session {
            let mut state = lock(&session.state);
            state.tokens = tokens;
            state.is_templated = is_templated;
            state.key = key;
        }
    }

    fn hand_on(mut self) {
        self.session = None;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            start_next(&session);
        }
    }
}

fn too_many() -> Error {
    Error::QueueFull { limit: MAX_WAITING, unit: "calls of the session", retry_after: Duration::from_secs(1) }
}
