//! The calls of one session, one after the other.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::ids::{RequestId, TokenId};
use crate::job::JobSender;
use crate::kv::SessionKey;
use crate::lock::lock;
use crate::worker::pool::Pace;

use super::storage::{FileCall, FileTask};
use super::{Inner, SessionMode};

/// Maximum number of waiting calls of one session; requests are bounded by the engine's queue as well.
const MAX_WAITING: usize = 1024;

/// A session's tokens, and the calls that wait for them.
#[derive(Default)]
pub(super) struct Conversation {
    pub(super) tokens: Vec<TokenId>,
    pub(super) is_templated: bool,
    /// The key by which it uses cells from a file, if there are any.
    key: Option<SessionKey>,
    turns: Turns,
    waiting: VecDeque<Call>,
}

/// The state of the turn.
#[derive(Default, PartialEq, Eq)]
enum Turns {
    /// Nobody has the turn.
    #[default]
    Free,
    /// A call has the turn.
    Taken,
    /// The turn is being given to the call that waits longest.
    Starting,
    /// The call that was to get the turn is over already.
    CameBack,
}

impl Conversation {
    /// A queue with the tokens of another session, and no waiting calls.
    pub(super) fn of(other: &Self) -> Self {
        Self { tokens: other.tokens.clone(), is_templated: other.is_templated, ..Self::default() }
    }
}

/// A request that waits for its turn. Dropping it answers it.
pub(crate) trait WaitingRequest: Send {
    fn id(&self) -> RequestId;
    /// Continues the request, which now has the turn.
    fn start(self: Box<Self>, turn: Turn);
    /// Ends the request, since its client gave it up.
    fn cancel(self: Box<Self>);
    /// Ends the request with an error.
    fn refuse(self: Box<Self>, error: Error);
}

/// A call of a session.
pub(crate) enum Call {
    Request(Box<dyn WaitingRequest>),
    Save(PathBuf, JobSender<()>),
    Load(PathBuf, JobSender<()>),
    Reset(JobSender<()>),
}

/// The right of one call to use its session. Dropping it, wherever that happens, starts the next call.
pub(crate) struct Turn {
    session: Arc<Inner>,
}

/// A request's turn, and its effect on the session.
pub(crate) struct SessionTurn {
    pub(crate) turn: Turn,
    pub(crate) mode: SessionMode,
    /// See [`super::SessionUse::templated`].
    pub(crate) templated: bool,
}

/// Queues a call, or starts it if it is the only one.
pub(super) fn enter(session: &Arc<Inner>, call: Call) {
    let mut conversation = lock(&session.conversation);
    if conversation.waiting.len() >= MAX_WAITING {
        drop(conversation);
        return call.refuse(too_many());
    }
    conversation.waiting.push_back(call);
    let is_first = conversation.turns == Turns::Free;
    if is_first {
        conversation.turns = Turns::Taken;
    }
    drop(conversation);
    if is_first {
        start_next(session);
    }
}

/// Gives the turn to the call that waits longest. Calls that are over at once are followed by the next one
/// here: starting it where the turn is dropped would recurse once for each call.
fn start_next(session: &Arc<Inner>) {
    let mut conversation = lock(&session.conversation);
    if conversation.turns == Turns::Starting {
        conversation.turns = Turns::CameBack;
        return;
    }
    loop {
        let Some(call) = conversation.waiting.pop_front() else {
            conversation.turns = Turns::Free;
            return;
        };
        conversation.turns = Turns::Starting;
        drop(conversation);
        call.start(Turn { session: Arc::clone(session) });
        conversation = lock(&session.conversation);
        if conversation.turns == Turns::Starting {
            conversation.turns = Turns::Taken;
            return;
        }
    }
}

/// Ends a request that its client gave up, if it is waiting.
pub(super) fn cancel_waiting(session: &Inner, id: RequestId) -> bool {
    let mut conversation = lock(&session.conversation);
    let is_it = |call: &Call| matches!(call, Call::Request(request) if request.id() == id);
    let index = conversation.waiting.iter().position(is_it);
    let call = index.and_then(|index| conversation.waiting.remove(index));
    drop(conversation);
    let Some(Call::Request(request)) = call else {
        return false;
    };
    request.cancel();
    true
}

impl Call {
    /// Begins the call.
    fn start(self, turn: Turn) {
        match self {
            Self::Request(request) => request.start(turn),
            Self::Save(path, result) => start_file(FileTask::Save, path, result, turn),
            Self::Load(path, result) => start_file(FileTask::Load, path, result, turn),
            Self::Reset(result) => {
                if !result.is_cancelled() {
                    turn.replace(Vec::new(), false, None);
                    result.send(Ok(()));
                }
            }
        }
    }

    /// Answers a call that cannot be made.
    pub(super) fn refuse(self, error: Error) {
        match self {
            Self::Request(request) => request.refuse(error),
            Self::Save(_, result) | Self::Load(_, result) | Self::Reset(result) => result.send(Err(error)),
        }
    }
}

fn start_file(task: FileTask, path: PathBuf, result: JobSender<()>, turn: Turn) {
    if !result.is_cancelled() {
        let files = Arc::clone(&turn.session.files);
        let call = FileCall { task, path, turn, result };
        files.pool.push(Pace::Quick, move |storage| storage.run(call));
    }
}

impl Turn {
    /// The session's tokens, and whether they come from a chat template.
    pub(crate) fn contents(&self) -> (Vec<TokenId>, bool) {
        let conversation = lock(&self.session.conversation);
        (conversation.tokens.clone(), conversation.is_templated)
    }

    /// The key by which the session uses cells from a file.
    pub(crate) fn key(&self) -> Option<SessionKey> {
        lock(&self.session.conversation).key.clone()
    }

    /// Replaces the session's tokens.
    fn set(&self, tokens: Vec<TokenId>, is_templated: bool) {
        self.replace(tokens, is_templated, self.key());
    }

    /// Replaces the session's tokens by those of a file, whose cells are kept as long as the key.
    pub(super) fn replace(&self, tokens: Vec<TokenId>, is_templated: bool, key: Option<SessionKey>) {
        let mut conversation = lock(&self.session.conversation);
        conversation.tokens = tokens;
        conversation.is_templated = is_templated;
        conversation.key = key;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        start_next(&self.session);
    }
}

impl SessionTurn {
    /// Ends the turn of a request that had output: the session continues from these tokens.
    pub(crate) fn finish(self, tokens: Vec<TokenId>) {
        let is_turn = matches!(self.mode, SessionMode::AppendTurn(_));
        let is_templated = self.templated || (is_turn && lock(&self.turn.session.conversation).is_templated);
        self.turn.set(tokens, is_templated);
    }
}

fn too_many() -> Error {
    Error::QueueFull { limit: MAX_WAITING, unit: "calls of the session", retry_after: Duration::from_secs(1) }
}
