//! The hold on an engine's draft context.

use std::sync::Arc;

use crossbeam_channel::Sender;

use crate::command::Command;
use crate::process::Owner;

/// Keeps the draft context of an engine open: that of the model's own head for multi-token prediction.
/// The last clone of the last head frees it.
#[derive(Debug, Clone)]
pub struct Head {
    hold: Arc<Hold>,
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.hold, &other.hold)
    }
}

impl Head {
    pub(crate) fn new(commands: Sender<Command>) -> Self {
        Self { hold: Arc::new(Hold { owner: Owner::current(), commands }) }
    }

    /// Whether it is of the engine that these commands go to.
    pub(crate) fn is_of(&self, commands: &Sender<Command>) -> bool {
        self.hold.commands.same_channel(commands)
    }
}

#[derive(Debug)]
struct Hold {
    owner: Owner,
    commands: Sender<Command>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.owner.is_current() && self.commands.send(Command::CloseHead).is_err() {
            log::debug!("the engine had ended before its draft context was given back");
        }
    }
}
