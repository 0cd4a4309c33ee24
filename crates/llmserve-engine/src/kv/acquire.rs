//! Finds a slot for a sequence, with whatever cells of its tokens exist.

use crate::ids::{SlotId, TokenId};

use super::place::{self, Leader, Offer, Origin, Place, Source, Start};
use super::prefix::{common_prefix, computed_alike};
use super::{KvCache, Lease, Owners, Resident, Suspended, Wanted};

impl KvCache {
    /// Where a sequence had best start; `None` while there is no slot for it.
    pub(crate) fn choose(&mut self, wanted: &Wanted<'_>, residents: &[Resident<'_>]) -> Option<Place> {
        let prices = self.prices();
        let rooms = self.rooms();
        let num_tokens = wanted.coverable().len();
        if !wanted.is_cached || !self.keeps_prefixes {
            return place::choose(num_tokens, &[], &rooms, None, &prices);
        }
        if let Some(resident) = residents.iter().find(|resident| resident.num_computed > 0) {
            self.learn_size(resident.slot, resident.num_computed);
        }
        let offers = self.offers(wanted, residents);
        place::choose(num_tokens, &offers, &rooms, self.leader(wanted, residents), &prices)
    }

    /// All cells that cover some of the tokens. At equal prices the first wins: an idle slot needs no copy.
    fn offers(&self, wanted: &Wanted<'_>, residents: &[Resident<'_>]) -> Vec<Offer> {
        let trims_anywhere = self.limits().trims_anywhere;
        let idle = self.slots.idle().filter(|(_, prefix)| prefix.owners.include(wanted.session));
        let idle = idle.map(|(slot, prefix)| {
            let len = prefix.tokens.len();
            // A copy that could not be cut back would be useless.
            let bytes = trims_anywhere.then(|| self.copy_bytes(len));
            let shared = self.usable(slot, &prefix.tokens, prefix.num_prompt, wanted);
            Offer { origin: Origin::Idle(slot), shared, len, bytes }
        });
        let running = residents.iter().filter(|other| self.is_open(other, wanted)).map(|other| {
            let len = other.num_computed;
            let shared = self.usable(other.slot, &other.tokens[..len], other.num_prompt, wanted);
            let bytes = (trims_anywhere || shared == len).then(|| self.copy_bytes(len));
            Offer { origin: Origin::Running(other.slot), shared, len, bytes }
        });
        let parked = self.parking.prefixes().filter(|(_, prefix)| prefix.owners.include(wanted.session));
        let parked = parked.map(|(index, prefix)| {
            let shared = self.shared(&prefix.tokens, prefix.num_prompt, wanted);
            let len = prefix.tokens.len();
            let is_usable = (prefix.can_trim || shared == len) && wanted.is_worth(prefix.can_draft, shared);
            let origin = Origin::Parked(index);
            Offer { origin, shared: if is_usable { shared } else { 0 }, len, bytes: Some(prefix.state.len()) }
        });
        idle.chain(running).chain(parked).filter(|offer| offer.shared > 0).collect()
    }

    fn is_open(&self, resident: &Resident<'_>, wanted: &Wanted<'_>) -> bool {
        let owners = self.slots.owners(resident.slot);
        resident.is_shared && owners.is_some_and(|owners| owners.include(wanted.session))
    }

    /// How many of the wanted tokens are covered by cells of these tokens, of which `num_prompt` are a prompt.
    fn shared(&self, tokens: &[TokenId], num_prompt: usize, wanted: &Wanted<'_>) -> usize {
        let shared = common_prefix(tokens, wanted.coverable());
        computed_alike(shared, num_prompt, wanted.tokens.len(), self.limits().tile)
    }

    /// How many of the wanted tokens a slot's cells cover, if it can be cut back to them.
    fn usable(&self, slot: SlotId, own: &[TokenId], num_prompt: usize, wanted: &Wanted<'_>) -> usize {
        let shared = self.shared(own, num_prompt, wanted);
        let is_usable =
            self.context.can_trim(slot, shared) && wanted.is_worth(self.context.can_draft(slot), shared);
        if is_usable { shared } else { 0 }
    }

    /// The running prompt that will have computed most of the tokens.
    fn leader(&self, wanted: &Wanted<'_>, residents: &[Resident<'_>]) -> Option<Leader> {
        let leaders = residents
            .iter()
            .enumerate()
            .filter(|(_, other)| other.tokens.len() > other.num_computed + 1 && self.is_open(other, wanted));
        let shared =
            leaders.map(|(index, other)| (index, self.shared(other.tokens, other.num_prompt, wanted)));
        let (index, position) = shared
            .filter(|&(index, position)| position > residents[index].num_computed)
            .max_by_key(|&(_, position)| position)?;
        Some(Leader { index, position, bytes: self.copy_bytes(position) })
    }

    /// Gives a sequence the slot that was chosen. `num_running_cells`: those of all running sequences.
    pub(crate) fn acquire(&mut self, wanted: &Wanted<'_>, start: Start, num_running_cells: usize) -> Lease {
        let Start { source, shared, slot } = start;
        let (num_computed, owners) = match source {
            Source::Nothing => {
                self.evict(slot);
                (0, Owners::default())
            }
            Source::TakeOver => self.take_over(slot, shared),
            Source::Copy(from) => self.copy_from(from, slot, shared),
            Source::Parked(index) => self.unpark(index, start, wanted, num_running_cells),
        };
        let owners = if num_computed > 0 { owners.narrowed(wanted.session) } else { Owners::default() };
        self.occupy(slot, owners);
        Lease { slot, num_computed }
    }

    /// Gives a sequence that had to give way a slot and its cells again.
    pub(crate) fn resume(&mut self, suspended: Suspended, slot: SlotId, num_running_cells: usize) -> Lease {
        let Suspended { state, num_tokens, owners } = suspended;
        self.parking.release_sequence(state.len());
        self.evict(slot);
        self.make_cells(num_tokens, num_running_cells);
        let is_restored = self.restore(slot, &state, num_tokens);
        self.occupy(slot, owners);
        Lease { slot, num_computed: if is_restored { num_tokens } else { 0 } }
    }

    fn occupy(&mut self, slot: SlotId, owners: Owners) {
        self.slots.set_busy(slot, owners);
        self.is_gap_accepted = false;
    }

    fn take_over(&mut self, slot: SlotId, shared: usize) -> (usize, Owners) {
        let held = self.held(slot);
        let Some(prefix) = self.slots.take_idle(slot) else {
            return (0, Owners::default());
        };
        let cut = prefix.tokens.len() - shared;
        let owners = prefix.owners.clone();
        if held.is_some_and(|held| held.loss(cut, &self.prices()).is_saved) {
            self.park(slot, prefix.tokens, prefix.num_prompt, prefix.owners);
        }
        (self.trim_to(slot, shared), owners)
    }

    fn copy_from(&mut self, from: SlotId, to: SlotId, shared: usize) -> (usize, Owners) {
        self.slots.touch(from);
        self.evict(to);
        let owners = self.slots.owners(from).cloned().unwrap_or_default();
        let is_copied = self.copy(from, to, self.context.num_tokens(from));
        (if is_copied { self.trim_to(to, shared) } else { 0 }, owners)
    }

    fn unpark(
        &mut self,
        index: usize,
        Start { shared, slot, .. }: Start,
        wanted: &Wanted<'_>,
        num_running_cells: usize,
    ) -> (usize, Owners) {
        // Taken out first: emptying the slot may park another and so move the indices.
        let parked = self.parking.take(index);
        self.evict(slot);
        let Some(mut parked) = parked else {
            return (0, Owners::default());
        };
        let owners = parked.owners.clone();
        self.make_cells(parked.tokens.len(), num_running_cells);
        if !self.restore(slot, &parked.state, parked.tokens.len()) {
            return (0, owners);
        }
        // Another's conversation with the same beginning stays, and so does one that moves on in the slot uncut.
        let has_others = wanted.session.is_some_and(|session| owners.has_others(session));
        if shared < parked.tokens.len() || !parked.can_trim || has_others {
            parked.is_awaited &= has_others;
            self.parking.park_prefix(parked);
        }
        (self.trim_to(slot, shared), owners)
    }
}

impl Wanted<'_> {
    /// The tokens whose cells may come from elsewhere.
    fn coverable(&self) -> &[TokenId] {
        &self.tokens[..self.num_coverable]
    }

    /// Whether cells of `shared` tokens are of use although the draft context may not know them: a sequence that
    /// goes on from those could not draft. Saving most of the prompt is worth that.
    fn is_worth(&self, can_draft: bool, shared: usize) -> bool {
        can_draft || !self.wants_head || 2 * shared >= self.tokens.len()
    }
}
