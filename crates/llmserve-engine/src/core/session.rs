//! The cells of sessions on their way to files.

use crate::cache::ParkedPrefix;
use crate::ids::{SlotId, TokenId};
use crate::session::{CellsCopy, CopyCells};

use super::Core;

impl Core {
    pub(super) fn copy_cells(&mut self, copy: &CopyCells) {
        let cells = self.cells_of(&copy.tokens);
        if copy.reply.send(cells).is_err() {
            log::debug!("nobody waits for the cells of a session");
        }
    }

    /// Keeps cells out of a file for the request that goes on from them.
    pub(super) fn park_restored(&mut self, prefix: ParkedPrefix) {
        if self.config.prefix_cache {
            let can_trim = self.context.limits().trims_anywhere;
            self.parking.park_prefix(ParkedPrefix { can_trim, ..prefix });
        }
    }

    /// The cells that cover most of the tokens, and nobody else's: those of an idle slot, or parked ones.
    fn cells_of(&mut self, tokens: &[TokenId]) -> Option<CellsCopy> {
        let slots = self.slots.idle().filter(|(_, prefix)| tokens.starts_with(&prefix.tokens));
        let slot: Option<(SlotId, usize)> =
            slots.map(|(slot, prefix)| (slot, prefix.tokens.len())).max_by_key(|&(_, len)| len);
        let parked = self.parking.longest_start(tokens);
        match (slot, parked) {
            (Some((slot, num_tokens)), parked)
                if parked.is_none_or(|parked| parked.tokens.len() <= num_tokens) =>
            {
                Some(CellsCopy { num_tokens, state: self.context.save(slot)? })
            }
            (_, Some(parked)) => {
                Some(CellsCopy { num_tokens: parked.tokens.len(), state: parked.state.clone() })
            }
            (_, None) => None,
        }
    }
}
