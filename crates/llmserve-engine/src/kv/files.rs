//! The cells of sessions on their way to files and back.

use crossbeam_channel::Sender;

use crate::ids::{SlotId, TokenId};

use super::{KvCache, Owners, ParkedPrefix, SessionKey};

/// Asks for a copy of the existing cells of a session's tokens.
pub(crate) struct CopyCells {
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) session: Option<SessionKey>,
    /// Has room for the answer, which is `None` if there are no cells.
    pub(crate) reply: Sender<Option<CellsCopy>>,
}

/// A copy of the cells of the first tokens of a session.
pub(crate) struct CellsCopy {
    pub(crate) num_tokens: usize,
    pub(crate) state: Vec<u8>,
}

/// Cells from a session's file.
pub(crate) struct LoadedCells {
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) state: Vec<u8>,
    /// The session that loaded the file.
    pub(crate) owners: Owners,
}

impl KvCache {
    /// Keeps cells from a file for the session that continues from them.
    pub(crate) fn take_in(&mut self, loaded: LoadedCells) {
        if !self.keeps_prefixes {
            return;
        }
        let LoadedCells { tokens, state, owners } = loaded;
        let can_trim = self.limits().trims_anywhere;
        let (can_draft, is_awaited) = (true, true);
        // Only the session continues from them, and nobody computes its tokens as a prompt.
        let num_prompt = 0;
        let prefix = ParkedPrefix { tokens, num_prompt, state, can_trim, can_draft, owners, is_awaited };
        self.parking.park_loaded(prefix);
    }

    /// The cells that cover most of a session's tokens, and nobody else's: those of an idle slot, or parked ones.
    pub(crate) fn copy_out(&mut self, tokens: &[TokenId], session: Option<&SessionKey>) -> Option<CellsCopy> {
        let slots = self
            .slots
            .idle()
            .filter(|(_, prefix)| prefix.owners.include(session) && tokens.starts_with(&prefix.tokens));
        let slot: Option<(SlotId, usize)> =
            slots.map(|(slot, prefix)| (slot, prefix.tokens.len())).max_by_key(|&(_, len)| len);
        let parked = self.parking.longest_start(tokens, session);
        match (slot, parked) {
            (Some((slot, num_tokens)), parked)
                if parked.is_none_or(|parked| parked.tokens.len() <= num_tokens) =>
            {
                Some(CellsCopy { num_tokens, state: self.context.save(slot, usize::MAX)? })
            }
            (_, Some(parked)) => {
                Some(CellsCopy { num_tokens: parked.tokens.len(), state: parked.state.clone() })
            }
            (_, None) => None,
        }
    }
}
