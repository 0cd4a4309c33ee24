//! The model's own head: opened for the first user that drafts with it, closed with the last.

use crossbeam_channel::Sender;

use crate::command::Command;
use crate::draft::Head;
use crate::job::JobSender;

use super::Core;

impl Core {
    /// Makes the draft context, if there is none, and counts one more holder.
    pub(super) fn open_head(&mut self, result: JobSender<Head>, commands: Sender<Command>) {
        match self.kv.compute().open_head() {
            Ok(()) => {
                self.stats.num_draft_users += 1;
                self.publish();
                let close = move || {
                    if commands.send(Command::CloseHead).is_err() {
                        log::debug!("the engine had ended before its draft context was given back");
                    }
                };
                // Given back at once if nobody waits for it any more.
                result.send(Ok(Head::new(&self.shared, close)));
            }
            Err(error) => result.send(Err(error)),
        }
    }

    /// A holder of the draft context has released it.
    pub(super) fn close_head(&mut self) {
        self.stats.num_draft_users = self.stats.num_draft_users.saturating_sub(1);
        if self.stats.num_draft_users == 0 {
            self.kv.compute().close_head();
        }
    }
}
