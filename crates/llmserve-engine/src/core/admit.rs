//! Admission: a waiting sequence gets a slot, and in it whatever cells of its prefix exist.

use crate::cache::common_prefix;
use crate::draft::SequenceDrafts;
use crate::event::Event;
use crate::ids::SlotId;
use crate::sequence::Sequence;

use super::{Core, End, Waiting};

/// A running prompt is waited for if it will give this many tokens more than what exists.
const MIN_SHARED_GAIN: usize = 16;
/// Cells are copied from one slot to another, or out of host memory, from this many tokens on.
const MIN_COPIED: usize = 8;

/// Where the first cells of a sequence come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// None exist.
    Nothing,
    /// Its own, saved when it was preempted.
    Own,
    /// An idle slot.
    Idle(SlotId),
    /// A sequence that is running.
    Running(SlotId),
    /// Host memory.
    Parked(usize),
}

/// What to do with a waiting sequence.
enum Admission {
    Start(Source, usize),
    /// A running prompt is about to have computed what this one shares with it.
    Await {
        leader: usize,
        position: usize,
    },
}

impl Core {
    /// Gives slots to waiting sequences in the order of their arrival, as far as there is room.
    /// One that waits for a running prompt's cells is passed by.
    pub(super) fn admit(&mut self) {
        for sequence in &mut self.running {
            sequence.share_at = None;
        }
        let mut index = 0;
        while index < self.waiting.len() && self.has_room_for(&self.waiting[index].sequence) {
            match self.decide(&self.waiting[index].sequence) {
                Admission::Await { leader, position } => {
                    let share_at = &mut self.running[leader].share_at;
                    *share_at = Some(share_at.map_or(position, |other| other.min(position)));
                    index += 1;
                }
                Admission::Start(source, len) => {
                    let Some(waiting) = self.waiting.remove(index) else {
                        return;
                    };
                    if !self.start(waiting, source, len) {
                        return;
                    }
                }
            }
        }
    }

    fn decide(&self, sequence: &Sequence) -> Admission {
        if sequence.parked.is_some() {
            return Admission::Start(Source::Own, 0);
        }
        if !sequence.request.cache_prompt || !self.config.prefix_cache {
            return Admission::Start(Source::Nothing, 0);
        }
        let (source, len) = self.best_source(sequence);
        match self.promising_leader(sequence, len + MIN_SHARED_GAIN) {
            Some((leader, position)) => Admission::Await { leader, position },
            None => Admission::Start(source, len),
        }
    }

    /// The cells that cover most of the sequence, and how many tokens of it. At least one token is
    /// left to compute, since its logits are needed.
    fn best_source(&self, sequence: &Sequence) -> (Source, usize) {
        let wanted = &sequence.tokens[..sequence.tokens.len() - 1];
        let is_worth = |can_draft: bool, len: usize| can_draft || !wants_head(sequence, len);
        let usable = |slot, tokens: &[_]| {
            let shared = common_prefix(tokens, wanted);
            let is_usable =
                self.context.can_trim(slot, shared) && is_worth(self.context.can_draft(slot), shared);
            if is_usable { shared } else { 0 }
        };
        let trims_anywhere = self.context.limits().trims_anywhere;
        let idle = self.slots.idle().map(|(slot, prefix)| {
            let len = usable(slot, &prefix.tokens);
            let is_spared = trims_anywhere || !self.slots.has_empty();
            let is_worth = shares_most(len, prefix.tokens.len()) || (len >= MIN_COPIED && is_spared);
            (Source::Idle(slot), if is_worth { len } else { 0 })
        });
        let running = self.running.iter().filter(|other| other.request.cache_prompt).filter_map(|other| {
            let slot = other.slot?;
            let len = usable(slot, &other.tokens[..other.num_computed]);
            // A copy of a sliding window cannot be cut back.
            let can_cut = trims_anywhere || len == other.num_computed;
            (can_cut && len >= MIN_COPIED).then_some((Source::Running(slot), len))
        });
        let parked = self
            .parking
            .best_match(wanted, |prefix, len| len >= MIN_COPIED && is_worth(prefix.can_draft, len));
        let parked = parked.map(|(index, len)| (Source::Parked(index), len));
        // On equal lengths the first: an idle slot may be taken over without copying.
        let all = idle.chain(running).chain(parked).filter(|&(_, len)| len > 0);
        all.reduce(|best, other| if other.1 > best.1 { other } else { best }).unwrap_or((Source::Nothing, 0))
    }

    /// A running prompt that will have computed at least `min_len` shared tokens.
    fn promising_leader(&self, sequence: &Sequence, min_len: usize) -> Option<(usize, usize)> {
        let wanted = &sequence.tokens[..sequence.tokens.len() - 1];
        let leaders = self
            .running
            .iter()
            .enumerate()
            .filter(|(_, leader)| leader.num_pending() > 1 && leader.request.cache_prompt);
        let shared = leaders.map(|(index, leader)| (index, common_prefix(&leader.tokens, wanted)));
        shared
            .filter(|&(index, len)| len >= min_len && len > self.running[index].num_computed)
            .max_by_key(|&(_, len)| len)
    }

    /// False: it has no slot and stays where it was, which cannot be while `has_room_for` holds.
    fn start(&mut self, waiting: Waiting, source: Source, len: usize) -> bool {
        let Waiting { mut sequence, place } = waiting;
        drop(place);
        if sequence.tokens.len() >= sequence.max_tokens() {
            // No room for a token that was not asked for (`max_total_tokens` equals the prompt).
            self.report_end(&mut sequence, End::length());
            return true;
        }
        let Some((slot, num_computed)) = self.fill_slot(&mut sequence, source, len) else {
            log::error!("a sequence was to be admitted and found no slot");
            self.waiting.push_front(Waiting { sequence, place: None });
            return false;
        };
        sequence.slot = Some(slot);
        sequence.num_computed = num_computed;
        self.slots.set_busy(slot, sequence.id());
        if sequence.note_admitted(num_computed) {
            sequence.checkpoint_at = self.checkpoint_position(&sequence);
            self.stats.prompt_tokens += sequence.num_prompt as u64;
            self.stats.cached_tokens += num_computed as u64;
            let started = Event::Started { num_cached_tokens: num_computed };
            sequence.outbox.push(started, &mut self.pending);
        }
        self.is_gap_accepted = false;
        self.running.push(sequence);
        true
    }

    /// A slot for the sequence, and how many of its tokens have their cells there.
    fn fill_slot(&mut self, sequence: &mut Sequence, source: Source, len: usize) -> Option<(SlotId, usize)> {
        match source {
            Source::Nothing => Some((self.free_slot()?, 0)),
            Source::Own => {
                let slot = self.free_slot()?;
                let parked = sequence.parked.take()?;
                self.parking.release_sequence(parked.bytes.len());
                self.make_cells(parked.num_computed);
                let is_restored = self.context.restore(slot, &parked.bytes, parked.num_computed);
                Some((slot, if is_restored { parked.num_computed } else { 0 }))
            }
            Source::Idle(slot) => self.reuse_idle(slot, len),
            Source::Running(from) => {
                let slot = self.free_slot()?;
                Some((slot, self.copy_to(slot, from, len)))
            }
            Source::Parked(index) => {
                // Taken out first: making a slot free may park another and so move the indices.
                let parked = self.parking.take(index)?;
                let slot = self.free_slot()?;
                self.make_cells(parked.tokens.len());
                let is_restored = self.context.restore(slot, &parked.state, parked.tokens.len());
                let len = if is_restored { self.trim_to(slot, len) } else { 0 };
                // What cannot be trimmed moves on in the slot and cannot come back here, and what was used in
                // part is somebody else's conversation: keep the copy.
                let is_wanted = !parked.can_trim || len < parked.tokens.len();
                if is_restored && is_wanted {
                    self.parking.park_prefix(parked);
                }
                Some((slot, len))
            }
        }
    }

    /// Takes an idle slot over where it is as good a place as any, else copies from it.
    fn reuse_idle(&mut self, slot: SlotId, len: usize) -> Option<(SlotId, usize)> {
        // A copy that could not be cut back would be of no use.
        let is_copied = self.context.limits().trims_anywhere;
        // A conversation that shares little keeps its cells while there is an empty slot.
        let is_taken = shares_most(len, self.slots.num_idle_tokens(slot)) || !self.slots.has_empty();
        let target = if is_copied { self.choose_slot(is_taken.then_some(slot))? } else { slot };
        if target != slot {
            self.slots.touch(slot);
            self.evict(target);
            return Some((target, self.copy_to(target, slot, len)));
        }
        let prefix = self.slots.take_idle(slot)?;
        // What is cut off for a prompt that shares little may be much of another conversation.
        if prefix.tokens.len() - len > len {
            self.park_prefix(slot, prefix.tokens);
        }
        Some((slot, self.trim_to(slot, len)))
    }

    /// Copies the first tokens of a slot; how many came over.
    fn copy_to(&mut self, target: SlotId, from: SlotId, len: usize) -> usize {
        if self.context.copy(from, target) { self.trim_to(target, len) } else { 0 }
    }

    /// Cuts a slot back to so many tokens; what cannot be cut is cleared, to be computed again. How many
    /// are left.
    pub(super) fn trim_to(&mut self, slot: SlotId, len: usize) -> usize {
        if self.context.can_trim(slot, len)
            && let Some(left) = self.context.trim_for_drafts(slot, len)
        {
            return left;
        }
        self.context.clear(slot);
        0
    }
}

/// Whether a prefix of which so many tokens are shared loses less than what is shared.
fn shares_most(shared: usize, len: usize) -> bool {
    2 * shared >= len
}

/// Whether a sequence had better compute its prompt anew than go on from so many tokens' cells that the draft
/// context does not know: it could not draft. Saving most of the prompt is worth that.
fn wants_head(sequence: &Sequence, len: usize) -> bool {
    let drafts = sequence.drafts.as_ref().is_some_and(SequenceDrafts::is_head);
    drafts && 2 * len < sequence.tokens.len()
}
