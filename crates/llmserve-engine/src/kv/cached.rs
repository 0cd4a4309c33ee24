//! Tells which tokens the cells are of.

use crate::cached::CachedTokens;
use crate::ids::TokenId;

use super::{KvCache, Owners, Resident};

impl KvCache {
    /// The tokens whose cells every request may use, each beginning of them too: nothing where a cache cannot be cut
    /// back to any length.
    pub(crate) fn cached_tokens(&self, residents: &[Resident<'_>]) -> CachedTokens {
        if !self.keeps_prefixes || !self.limits().trims_anywhere {
            return CachedTokens::default();
        }
        let is_open = |resident: &&Resident<'_>| {
            resident.is_shared && self.slots.owners(resident.slot).is_some_and(Owners::is_everybody)
        };
        let running =
            residents.iter().filter(is_open).map(|resident| &resident.tokens[..resident.num_computed]);
        let idle = self.slots.idle().filter(|(_, prefix)| prefix.owners.is_everybody());
        let parked = self.parking.prefixes().filter(|(_, prefix)| prefix.owners.is_everybody());
        CachedTokens {
            in_slots: running
                .chain(idle.map(|(_, prefix)| &prefix.tokens[..]))
                .map(<[TokenId]>::to_vec)
                .collect(),
            parked: parked.map(|(_, prefix)| prefix.tokens.clone()).collect(),
        }
    }
}
