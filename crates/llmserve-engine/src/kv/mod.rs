//! KV cells: who has which slot, what is kept of finished sequences, and where. This is the one owner of cells: nobody
//! else clears, copies, cuts, saves or restores them, and nothing is moved without asking what that costs.
//!
//! A running sequence has a [`Lease`]. What it leaves is an idle prefix in its slot, then perhaps one in host memory,
//! found by equal tokens. [`place`] chooses; the rest carries out.

mod acquire;
mod cached;
mod check;
mod files;
mod gap;
mod owners;
mod parking;
mod place;
mod prefix;
mod rates;
mod release;
mod room;
mod slots;

use std::time::{Duration, Instant};

use crate::config::{KvLayout, SchedulerConfig};
use crate::ids::{SlotId, TokenId};
use crate::model::{Compute, Context, ContextLimits};

pub(crate) use files::{CellsCopy, CopyCells, LoadedCells};
pub(crate) use owners::{Owners, SessionKey};
pub(crate) use place::{Place, Start};
pub(crate) use release::Suspended;

use parking::{ParkedPrefix, Parking};
use place::Prices;
use rates::Rates;
use slots::Slots;

/// No model computes a prompt token faster than this: a measurement that says so is not believed.
const MIN_TOKEN_SECONDS: f64 = 1e-6;

/// All cells of a context, and the copies of some in host memory.
pub(crate) struct KvCache {
    context: Box<dyn Context>,
    slots: Slots,
    parking: Parking,
    rates: Rates,
    speed: Speed,
    /// Whether the cells of finished sequences are kept.
    keeps_prefixes: bool,
    /// Time spent moving cells since it was last asked for.
    moved: Duration,
    /// llama.cpp had no cells, despite the count: no sequence comes in until one has ended.
    is_closed: bool,
    /// A gap between running sequences stays open: not looked at again until they change.
    is_gap_accepted: bool,
}

/// How fast the context computes, in seconds.
#[derive(Debug, Clone, Copy)]
struct Speed {
    /// The time of a prompt token.
    token: f64,
    /// The time of a step of few rows.
    step: f64,
}

impl Default for Speed {
    /// The rates of a model that nobody has measured yet.
    fn default() -> Self {
        Self { token: 0.001, step: 0.01 }
    }
}

/// A running sequence's slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) slot: SlotId,
    /// Tokens of the sequence whose cells are there.
    pub(crate) num_computed: usize,
}

/// What a sequence that has no slot looks for.
pub(crate) struct Wanted<'a> {
    /// All its tokens.
    pub(crate) tokens: &'a [TokenId],
    /// Whether cells of others may be used.
    pub(crate) is_cached: bool,
    /// How many of its tokens may have their cells from elsewhere: those behind must be computed for their logits.
    pub(crate) num_coverable: usize,
    /// Whether it drafts with the model's own head.
    pub(crate) wants_head: bool,
    pub(crate) session: Option<&'a SessionKey>,
}

/// A running sequence.
pub(crate) struct Resident<'a> {
    pub(crate) slot: SlotId,
    /// All its tokens.
    pub(crate) tokens: &'a [TokenId],
    /// How many of them are its prompt.
    pub(crate) num_prompt: usize,
    pub(crate) num_computed: usize,
    /// Whether others may use its cells.
    pub(crate) is_shared: bool,
    /// The most tokens that it may still generate.
    pub(crate) num_left: usize,
}

impl KvCache {
    pub(crate) fn new(context: Box<dyn Context>, config: &SchedulerConfig) -> Self {
        let limits = *context.limits();
        Self {
            slots: Slots::new(limits.num_slots),
            parking: Parking::new(config.parking_bytes),
            rates: Rates::new(limits.trims_anywhere),
            speed: Speed::default(),
            keeps_prefixes: config.prefix_cache,
            moved: Duration::ZERO,
            is_closed: false,
            is_gap_accepted: false,
            context,
        }
    }

    pub(crate) fn limits(&self) -> &ContextLimits {
        self.context.limits()
    }

    /// The context, for operations that move no cells.
    pub(crate) fn compute(&mut self) -> &mut dyn Compute {
        &mut *self.context
    }

    /// [`Self::compute`] for reading only.
    pub(crate) fn computed(&self) -> &dyn Compute {
        &*self.context
    }

    /// Tells what a prompt token and a step of few rows take, in seconds, as far as that is known.
    pub(crate) fn set_speed(&mut self, token: Option<f64>, step: Option<f64>) {
        let default = Speed::default();
        let token = token.unwrap_or(default.token).max(MIN_TOKEN_SECONDS);
        self.speed = Speed { token, step: step.unwrap_or(default.step) };
    }

    /// The time spent moving cells since the last call.
    pub(crate) fn take_moved(&mut self) -> Duration {
        std::mem::take(&mut self.moved)
    }

    /// The time spent moving cells since [`Self::take_moved`].
    pub(crate) fn moved(&self) -> Duration {
        self.moved
    }

    pub(crate) fn num_parked_bytes(&self) -> usize {
        self.parking.num_bytes()
    }

    pub(crate) fn num_idle_cells(&self) -> usize {
        self.slots.num_idle_cells()
    }

    /// A running sequence has ended or given way.
    pub(crate) fn note_departure(&mut self) {
        self.is_closed = false;
        self.is_gap_accepted = false;
    }

    fn is_unified(&self) -> bool {
        self.limits().layout == KvLayout::Unified
    }

    fn prices(&self) -> Prices {
        let gap = if self.limits().splits_batches { self.speed.step } else { 0.0 };
        Prices { token: self.speed.token, byte: self.rates.seconds_per_byte(), gap }
    }

    /// Bytes that are moved for a copy from slot to slot: out and in, but in one pool, where the cells are shared.
    fn copy_bytes(&self, num_tokens: usize) -> usize {
        if self.is_unified() { 0 } else { 2 * self.rates.bytes_of(num_tokens) }
    }

    /// Learns the size of a state from the first slot with cells.
    fn learn_size(&mut self, slot: SlotId, num_tokens: usize) {
        if self.rates.is_unknown() && num_tokens > 0 {
            let bytes = self.context.state_bytes(slot);
            self.rates.note_size(bytes, num_tokens);
        }
    }

    fn save(&mut self, slot: SlotId, num_tokens: usize) -> Option<Vec<u8>> {
        let started = Instant::now();
        let state = self.context.save(slot, self.parking.capacity());
        let bytes = state.as_ref().map_or(0, Vec::len);
        self.note_move(bytes, started);
        if state.is_some() {
            self.rates.note_size(bytes, num_tokens);
        }
        state
    }

    fn restore(&mut self, slot: SlotId, state: &[u8], num_tokens: usize) -> bool {
        let started = Instant::now();
        let is_restored = self.context.restore(slot, state, num_tokens);
        self.note_move(state.len(), started);
        is_restored
    }

    fn copy(&mut self, from: SlotId, to: SlotId, num_tokens: usize) -> bool {
        let started = Instant::now();
        let is_copied = self.context.copy(from, to);
        self.note_move(self.copy_bytes(num_tokens), started);
        is_copied
    }

    fn note_move(&mut self, bytes: usize, started: Instant) {
        let took = started.elapsed();
        self.rates.note_move(bytes, took);
        self.moved += took;
    }

    /// Cuts a slot back to a number of tokens; what cannot be cut is cleared, to be computed again. Returns
    /// how many are left.
    fn trim_to(&mut self, slot: SlotId, len: usize) -> usize {
        if self.context.can_trim(slot, len)
            && let Some(left) = self.context.trim_for_drafts(slot, len)
        {
            return left;
        }
        self.context.clear(slot);
        0
    }

    /// Takes the cells of rejected drafts back; returns how many tokens are left, 0 if the sequence must be computed
    /// again.
    pub(crate) fn roll_back(&mut self, slot: SlotId, position: usize) -> usize {
        if self.context.can_trim(slot, position) && self.context.trim(slot, position) {
            return position;
        }
        self.context.clear(slot);
        0
    }
}

#[cfg(test)]
mod tests;
