//! The commands for the engine thread.

use crossbeam_channel::Sender;

use crate::cached::CachedTokens;
use crate::draft::Head;
use crate::job::JobSender;
use crate::kv::{CopyCells, LoadedCells};
use crate::queue::Place;
use crate::sequence::Prepared;
use crate::session::CellsThread;

/// A command for the engine thread.
pub(crate) enum Command {
    /// A request that was accepted, with its place in the queue.
    Submit(Box<Prepared>, Place),
    /// A client gave up: its outbox is marked, and the next step looks.
    Wake,
    /// The cells of a session are to be written to its file.
    CopyCells(CopyCells),
    /// Cells from a session's file.
    Park(Box<LoadedCells>),
    /// Somebody asks which tokens have cells.
    ListCached(JobSender<CachedTokens>),
    /// The draft context is wanted.
    OpenHead {
        /// Receives what keeps it open.
        result: JobSender<Head>,
        /// The way for the holder to say that it is done.
        commands: Sender<Command>,
    },
    /// One of those who wanted the draft context no longer does.
    CloseHead,
    /// End everything.
    ShutDown,
}

impl CellsThread for Sender<Command> {
    fn copy(&self, copy: CopyCells) -> bool {
        self.send(Command::CopyCells(copy)).is_ok()
    }

    fn park(&self, cells: LoadedCells) -> bool {
        self.send(Command::Park(Box::new(cells))).is_ok()
    }
}
