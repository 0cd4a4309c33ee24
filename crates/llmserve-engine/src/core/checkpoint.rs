//! Checkpoints: where cells cannot be cut back, the state at the end of a prompt is kept in host
//! memory, so that a repeated or regenerated prompt need not be computed again.

use crate::sequence::Sequence;

use super::Core;
use super::room::MIN_PARKED_TOKENS;

impl Core {
    /// Where the state of a new sequence is to be kept: before the last token of its prompt, whose
    /// logits are needed again.
    pub(super) fn checkpoint_position(&self, sequence: &Sequence) -> Option<usize> {
        let is_wanted = !self.context.limits().trims_anywhere
            && self.config.parking_bytes > 0
            && self.config.prefix_cache
            && sequence.request.cache_prompt
            && sequence.num_prompt > MIN_PARKED_TOKENS;
        is_wanted.then(|| sequence.num_prompt - 1)
    }

    /// Keeps the state of a sequence that has come to its checkpoint.
    pub(super) fn take_checkpoint(&mut self, index: usize) {
        let sequence = &mut self.running[index];
        if sequence.checkpoint_at != Some(sequence.num_computed) {
            return;
        }
        sequence.checkpoint_at = None;
        let tokens = sequence.tokens[..sequence.num_computed].to_vec();
        if let Some(slot) = sequence.slot {
            self.park_prefix(slot, tokens);
        }
    }
}
