//! The thread that reads and writes session files. Prepare threads have requests to serve, and a large file
//! takes seconds.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use crossbeam_channel::bounded;

use crate::error::Error;
use crate::ids::TokenId;
use crate::job::JobSender;
use crate::kv::{CellsCopy, CopyCells, LoadedCells, Owners, SessionKey};
use crate::model_info::ModelInfo;
use crate::shared::Shared;
use crate::worker::pool::{PoolOptions, TaskPool};

use super::header::{Header, KvState, Model};
use super::read::{Contents, Expected, read};
use super::write::write;
use super::{Files, Turn};

/// The stack of the thread.
const STACK_BYTES: usize = 2 << 20;

/// The thread that has the cells. Both methods return false if it has ended.
pub(crate) trait CellsThread: Send + Sync {
    /// Asks for a copy of cells.
    fn copy(&self, copy: CopyCells) -> bool;
    /// Hands over cells, which are taken in before any later request.
    fn park(&self, cells: LoadedCells) -> bool;
}

/// An operation on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileTask {
    /// Write the session.
    Save,
    /// Read it.
    Load,
}

/// A call that has its turn. If it is lost, it passes the turn on before it answers, as it does when it is done: the
/// next call begins before the client can make one.
pub(super) struct FileCall {
    pub(super) task: FileTask,
    pub(super) path: PathBuf,
    pub(super) turn: Turn,
    pub(super) result: JobSender<()>,
}

/// The tools of the thread.
pub(crate) struct Storage {
    pub(crate) info: ModelInfo,
    /// Host memory for cells, in bytes.
    pub(crate) parking_bytes: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) cells: Box<dyn CellsThread>,
}

impl Files {
    /// Starts the thread.
    pub(crate) fn start(storage: Storage, shared: &Arc<Shared>) -> io::Result<Self> {
        let options = PoolOptions {
            name: "llmserve-session",
            num_threads: 1,
            stack_bytes: STACK_BYTES,
            must_finish: true,
            keeps_order: true,
        };
        Ok(Self { shared: Arc::clone(shared), pool: TaskPool::start(&options, storage, shared)? })
    }
}

impl Storage {
    pub(super) fn run(&self, call: FileCall) {
        let FileCall { task, path, turn, result } = &call;
        if result.is_cancelled() {
            return;
        }
        let outcome = match self.shared.refusal() {
            Some(error) => Err(error),
            None if *task == FileTask::Save => self.save(path, turn),
            None => self.load(path, turn),
        };
        if let Err(Error::Session(error)) = &outcome {
            log::warn!("session file: {error} ({})", error.detail);
        }
        let FileCall { turn, result, .. } = call;
        drop(turn);
        result.send(outcome);
    }

    fn save(&self, path: &Path, turn: &Turn) -> Result<(), Error> {
        let (tokens, is_templated) = turn.contents();
        let cells = self.copy_cells(&tokens, turn.key())?;
        let (num_state_tokens, state) = cells.map_or_else(Default::default, |it| (it.num_tokens, it.state));
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let header = Header {
            writer: concat!("llmserve ", env!("CARGO_PKG_VERSION")).to_owned(),
            created_s: now.map_or(0, |since| since.as_secs()),
            model: Model {
                fingerprint: self.info.fingerprint.clone(),
                architecture: self.info.architecture.clone(),
                description: self.info.description.clone(),
            },
            num_tokens: tokens.len() as u64,
            is_templated,
            state: (!state.is_empty()).then(|| KvState {
                layout: self.info.state_layout.clone(),
                num_tokens: num_state_tokens as u64,
                num_bytes: state.len() as u64,
            }),
        };
        write(path, &Contents { header, tokens, state })?;
        Ok(())
    }

    /// A copy of the existing cells of these tokens.
    fn copy_cells(
        &self,
        tokens: &[TokenId],
        session: Option<SessionKey>,
    ) -> Result<Option<CellsCopy>, Error> {
        if tokens.is_empty() {
            return Ok(None);
        }
        let (reply, copied) = bounded(1);
        let copy = CopyCells { tokens: tokens.to_vec(), session, reply };
        if !self.cells.copy(copy) {
            return Err(self.shared.why_lost());
        }
        copied.recv().map_err(|_| self.shared.why_lost())
    }

    fn load(&self, path: &Path, turn: &Turn) -> Result<(), Error> {
        let expected = Expected {
            fingerprint: &self.info.fingerprint,
            context_length: self.info.context_length.into(),
            vocabulary_size: self.info.vocabulary_size.into(),
            state_layout: &self.info.state_layout,
            max_state_bytes: self.parking_bytes as u64,
        };
        let Contents { header, tokens, state } = read(path, &expected)?;
        let key = SessionKey::default();
        if let Some(covered) = &header.state
            && !state.is_empty()
        {
            let tokens = tokens[..covered.num_tokens as usize].to_vec();
            self.park(LoadedCells { tokens, state, owners: Owners::one(&key) })?;
        }
        turn.replace(tokens, header.is_templated, Some(key));
        Ok(())
    }

    /// Hands cells to the engine thread, which takes them in before any later request.
    fn park(&self, cells: LoadedCells) -> Result<(), Error> {
        if self.cells.park(cells) { Ok(()) } else { Err(self.shared.why_lost()) }
    }
}
