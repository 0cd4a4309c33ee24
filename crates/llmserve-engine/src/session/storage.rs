//! The thread that reads and writes session files. Prepare threads have requests to serve, and a large file
//! takes seconds.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::command::Command;
use crate::error::Error;
use crate::ids::TokenId;
use crate::job::JobSender;
use crate::kv::{CellsCopy, CopyCells, LoadedCells, Owners, SessionKey};
use crate::model::ModelInfo;
use crate::shared::Shared;

use super::Turn;
use super::header::{Header, Model, State};
use super::read::{Contents, Expected, read};
use super::write::write;

/// What to do with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileTask {
    /// Write the session.
    Save,
    /// Read it.
    Load,
}

/// A call that has its turn.
pub(crate) struct FileJob {
    pub(super) task: FileTask,
    pub(super) path: PathBuf,
    pub(super) result: JobSender<()>,
    pub(super) turn: Turn,
}

/// What the thread works with.
pub(crate) struct Storage {
    pub(crate) info: ModelInfo,
    /// Host memory for cells, in bytes.
    pub(crate) parking_bytes: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) commands: Sender<Command>,
}

/// Starts the thread; it ends when the channel closes.
pub(crate) fn spawn(storage: Storage, jobs: Receiver<FileJob>) -> std::io::Result<()> {
    let builder = std::thread::Builder::new().name("llmserve-session".to_owned());
    builder.spawn(move || {
        let shared = Arc::clone(&storage.shared);
        for job in jobs {
            storage.run(job);
        }
        drop(storage);
        shared.thread_ended();
    })?;
    Ok(())
}

impl Storage {
    fn run(&self, job: FileJob) {
        let FileJob { task, path, result, turn } = job;
        if result.is_cancelled() {
            return;
        }
        let outcome = match self.shared.refusal() {
            Some(error) => Err(error),
            None if task == FileTask::Save => self.save(&path, &turn),
            None => self.load(&path, &turn),
        };
        if let Err(Error::Session(error)) = &outcome {
            log::warn!("session file: {error} ({})", error.detail);
        }
        // The next call begins before the client can make one.
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
            state: (!state.is_empty()).then(|| State {
                layout: self.info.state_layout.clone(),
                num_tokens: num_state_tokens as u64,
                num_bytes: state.len() as u64,
            }),
        };
        write(path, &Contents { header, tokens, state })?;
        Ok(())
    }

    /// A copy of what cells there are of these tokens.
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
        let ended = || self.shared.refusal().unwrap_or(Error::ShutDown);
        self.commands.send(Command::CopyCells(copy)).map_err(|_| ended())?;
        copied.recv().map_err(|_| ended())
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
        let ended = |_| self.shared.refusal().unwrap_or(Error::ShutDown);
        self.commands.send(Command::Park(Box::new(cells))).map_err(ended)
    }
}
