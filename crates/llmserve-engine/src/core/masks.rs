//! The masks of constrained sequences, computed on a thread of their own while the batch is decoded.

use crossbeam_channel::{Receiver, Sender, unbounded};

use crate::constrained::Constrained;
use crate::sequence::Sequence;

use super::compute::Part;

/// A constraint on its way, with the index of its sequence.
type Job = (usize, Box<Constrained>);

/// The thread and the way there and back.
pub(super) struct MaskThread {
    jobs: Sender<Job>,
    done: Receiver<Job>,
}

impl MaskThread {
    /// Starts the thread; it ends with this value.
    pub(super) fn start() -> std::io::Result<Self> {
        let (jobs, job_receiver) = unbounded::<Job>();
        let (done_sender, done) = unbounded();
        let builder = std::thread::Builder::new().name("llmserve-masks".to_owned());
        builder.spawn(move || {
            for (index, mut constrained) in job_receiver {
                // An error stays in the constraint and comes out where the mask is used.
                if let Err(error) = constrained.mask() {
                    log::debug!("a mask could not be computed: {error}");
                }
                if done_sender.send((index, constrained)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { jobs, done })
    }

    /// Sends the constraints of the sequences that will draw from this batch; how many.
    pub(super) fn send(&self, parts: &[Part], running: &mut [Sequence]) -> usize {
        let mut num_sent = 0;
        for part in parts.iter().filter(|part| part.draws()) {
            if let Some(constrained) = running[part.index].lend_constraint() {
                num_sent += usize::from(self.jobs.send((part.index, constrained)).is_ok());
            }
        }
        num_sent
    }

    /// Waits for so many constraints and gives them back.
    pub(super) fn receive(&self, num_sent: usize, running: &mut [Sequence]) {
        for (index, constrained) in self.done.iter().take(num_sent) {
            running[index].return_constraint(constrained);
        }
    }
}
