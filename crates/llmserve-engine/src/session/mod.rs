//! Sessions: conversations whose tokens are kept from call to call.
//!
//! A session is its token ids. Its cells, in a slot, in host memory or in a file, are a cache of them:
//! they are found like any equal prefix, and computed again if they are gone.

mod header;
mod queue;
mod read;
mod storage;
mod write;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::ids::{RequestId, TokenId};
use crate::job::{Job, job};
use crate::lock::lock;
use crate::notify::Listener;
use crate::shared::Shared;
use crate::types::{SessionError, SessionErrorReason};
use crate::worker::pool::TaskPool;

pub use header::SessionInfo;
pub(crate) use queue::{Call, SessionTurn, Turn, WaitingRequest};
pub use read::inspect_session;
pub(crate) use storage::{CellsThread, Storage};

use queue::Conversation;

/// A conversation with one engine. Clones are the same session.
///
/// The calls of a session (requests, [`Self::save`], [`Self::load`], [`Self::reset`]) run one after the other in the
/// order in which they were made. A call that waits holds its place in the engine's queue.
#[derive(Clone)]
pub struct Session {
    inner: Arc<Inner>,
}

/// The state that the clones share.
struct Inner {
    files: Arc<Files>,
    /// Held for a few instructions only, and never while something else is called.
    conversation: Mutex<Conversation>,
}

/// The handle on the thread that reads and writes an engine's session files.
pub(crate) struct Files {
    pub(crate) shared: Arc<Shared>,
    pub(crate) pool: TaskPool<Storage>,
}

impl Session {
    pub(crate) fn new(files: Arc<Files>) -> Self {
        Self { inner: Arc::new(Inner { files, conversation: Mutex::default() }) }
    }

    /// A session of the engine with these files, with the same contents as this one.
    pub(crate) fn copied(&self, files: Arc<Files>) -> Self {
        let conversation = Mutex::new(Conversation::of(&lock(&self.inner.conversation)));
        Self { inner: Arc::new(Inner { files, conversation }) }
    }

    /// Whether the session belongs to this engine.
    pub(crate) fn is_of(&self, engine: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.inner.files.shared, engine)
    }

    /// Number of tokens after the last call that has ended.
    #[must_use]
    pub fn num_tokens(&self) -> usize {
        lock(&self.inner.conversation).tokens.len()
    }

    /// The tokens after the last call that has ended: prompts and outputs.
    #[must_use]
    pub fn tokens(&self) -> Vec<TokenId> {
        lock(&self.inner.conversation).tokens.clone()
    }

    /// Whether the last request declared that the tokens come from a chat template.
    #[must_use]
    pub fn is_templated(&self) -> bool {
        lock(&self.inner.conversation).is_templated
    }

    /// Empties the session, after the calls that are waiting.
    #[must_use = "dropping the job gives the call up"]
    pub fn reset(&self, listener: Option<Listener>) -> Job<()> {
        let (result, job) = job(&self.inner.files.shared, listener);
        self.enter(Call::Reset(result));
        job
    }

    /// Writes the session to a file, after the calls that are waiting. A file that exists is replaced only
    /// if it is a session; a crash leaves the old file or the new one. Fails with [`crate::Error::Session`].
    #[must_use = "dropping the job gives the call up"]
    pub fn save(&self, path: impl Into<PathBuf>, listener: Option<Listener>) -> Job<()> {
        let (result, job) = job(&self.inner.files.shared, listener);
        self.enter(Call::Save(path.into(), result));
        job
    }

    /// Replaces the session by that of a file, after the calls that are waiting. Fails with
    /// [`crate::Error::Session`], and then changes nothing.
    #[must_use = "dropping the job gives the call up"]
    pub fn load(&self, path: impl Into<PathBuf>, listener: Option<Listener>) -> Job<()> {
        let (result, job) = job(&self.inner.files.shared, listener);
        self.enter(Call::Load(path.into(), result));
        job
    }

    /// Queues a call, or starts it if it is the only one.
    pub(crate) fn enter(&self, call: Call) {
        // In a forked child the locks may be held for ever. Dropped, the call says that.
        if self.inner.files.shared.owner().is_current() {
            queue::enter(&self.inner, call);
        }
    }

    /// Ends a request that its client gave up, if it is waiting here.
    pub(crate) fn cancel_waiting(&self, id: RequestId) -> bool {
        queue::cancel_waiting(&self.inner, id)
    }
}

impl PartialEq for Session {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Session").field("num_tokens", &self.num_tokens()).finish_non_exhaustive()
    }
}

/// How a request uses a session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionUse {
    /// The session.
    pub session: Session,
    /// The relation of the prompt to it.
    pub mode: SessionMode,
    /// Whether the session counts as templated afterwards. With [`SessionMode::AppendTurn`] a templated session
    /// stays so, whatever this says.
    pub templated: bool,
}

/// The relation of a request's prompt to its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionMode {
    /// The prompt replaces the session.
    Replace,
    /// The prompt follows the session's tokens.
    Append,
    /// The next turn of a conversation follows, in place of the prompt. In a session that is empty or not
    /// templated, the prompt follows.
    AppendTurn(NextTurn),
}

/// How a templated conversation continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextTurn {
    /// The turn, from the end of the one before to the prefix of the answer.
    pub turn: String,
    /// The text that ends the previous turn, if no end-of-generation token ended it.
    pub end_of_turn: String,
    /// The text between such a token and the next turn.
    pub after_end: String,
}

/// The error about a file that contradicts itself.
fn damaged(message: impl Into<String>) -> SessionError {
    SessionError::new(SessionErrorReason::Damaged, message)
}
