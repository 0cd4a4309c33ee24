//! What the engine thread is told.

use crossbeam_channel::Sender;

use crate::draft::Head;
use crate::job::JobSender;
use crate::kv::{CopyCells, LoadedCells};
use crate::queue::Place;
use crate::sequence::Prepared;
use crate::session::CellsThread;

/// What the engine thread is told.
pub(crate) enum Command {
    /// A request that was accepted, with its place in the queue.
    Submit(Box<Prepared>, Place),
    /// A client gave up: its outbox is marked, and the next step looks.
    Wake,
    /// The cells of a session are to be written to its file.
    CopyCells(CopyCells),
    /// Cells out of a session's file.
    Park(Box<LoadedCells>),
    /// The draft context is wanted.
    OpenHead {
        /// Gets what holds it open.
        result: JobSender<Head>,
        /// Where the holder says that it is done.
        commands: Sender<Command>,
    },
    /// One of those who wanted it does not any more.
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
