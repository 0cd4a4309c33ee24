//! Checks the integrity of the books: that slots contain what the books say.

use super::KvCache;
use super::slots::SlotUse;

impl KvCache {
    /// Whether [`Self::check`] is worth its time: in debug builds, and where the context can tell tokens, as the fake
    /// one of the tests can.
    pub(crate) fn is_checked(&self) -> bool {
        cfg!(debug_assertions) || self.context.tells_tokens()
    }

    /// Compares the books with the context while no sequence runs or waits.
    ///
    /// # Errors
    /// A description of what is wrong.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (slot, slot_use) in self.slots.uses() {
            let tokens = match slot_use {
                SlotUse::Empty => &[][..],
                SlotUse::Idle(prefix) => prefix.tokens.as_slice(),
                SlotUse::Busy(_) => return Err(format!("slot {} is busy and nobody runs", slot.0)),
            };
            let num_held = self.context.num_tokens(slot);
            if num_held != tokens.len() {
                return Err(format!("slot {} holds {num_held} tokens instead of {}", slot.0, tokens.len()));
            }
            if self.context.tokens(slot).is_some_and(|held| held != tokens) {
                return Err(format!("slot {} holds the cells of other tokens", slot.0));
            }
        }
        self.parking.check()
    }
}
