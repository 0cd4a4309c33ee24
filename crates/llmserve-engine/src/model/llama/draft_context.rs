//! The draft context: the model's own head for multi-token prediction (MTP), with its own cells.
//!
//! The procedure is that of llama.cpp's driver (`common/speculative.cpp`), for any number of slots, and with
//! cells taken in late: see [`super::backlog`].

use std::sync::Arc;

use super::backlog::{Backlog, Taken};
use super::head_context::{HeadContext, Row};
use super::raw_context::RawContext;
use super::{ContextShape, Weights};
use crate::config::ContextConfig;
use crate::error::Error;
use crate::ids::{SlotId, TokenId};
use crate::model::DraftRequest;

/// Hidden rows of a slot that may wait to be taken in, in bytes. A sequence that does not draft costs nothing so
/// long, and many tokens cost less together than one by one.
const MAX_WAITING_BYTES: usize = 4 << 20;
/// Number of tokens that are taken in together while a prompt is computed.
const MIN_TAKEN: usize = 16;

/// A draft context, made and used on the target's thread.
pub(super) struct DraftContext {
    head: HeadContext,
    slots: Vec<Backlog>,
    /// Values of a hidden row.
    width: usize,
    batch_size: usize,
}

/// A draft in the making.
struct Chain {
    /// The index of its request.
    index: usize,
    slot: SlotId,
    position: usize,
    token: TokenId,
    hidden: Vec<f32>,
    max: usize,
}

impl DraftContext {
    /// Makes the draft context of a target.
    pub(super) fn new(
        weights: &Arc<Weights>,
        target: &RawContext,
        config: &ContextConfig,
        shape: &ContextShape,
        lengths: impl Iterator<Item = usize>,
    ) -> Result<Self, Error> {
        let head = HeadContext::new(weights, target, config, shape)?;
        let width = head.width();
        let slots = lengths.map(|len| Backlog::unknown(width, len)).collect();
        Ok(Self { head, slots, width, batch_size: config.batch_size as usize })
    }

    /// Values of a hidden row.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn can_draft(&self, slot: SlotId) -> bool {
        self.slots[slot.index()].can_draft()
    }

    /// Records what the target has computed: a token and its hidden row.
    pub(super) fn push(&mut self, slot: SlotId, token: TokenId, hidden: &[f32]) {
        self.slots[slot.index()].push(token, hidden);
    }

    /// Takes in the waiting tokens of slots that have many.
    pub(super) fn take_in_long(&mut self, slots: &[SlotId]) {
        let is_long = |slot: &&SlotId| self.slots[slot.index()].len() >= MIN_TAKEN;
        let slots: Vec<SlotId> = slots.iter().filter(is_long).copied().collect();
        self.take_in(slots.into_iter());
    }

    /// Takes in tokens if too many are waiting.
    pub(super) fn take_in_oversized(&mut self) {
        let most = MAX_WAITING_BYTES / (4 * self.width.max(1));
        let slots = self.slots.iter().enumerate().filter(|(_, backlog)| backlog.len() > most);
        let slots: Vec<SlotId> = slots.map(|(index, _)| SlotId(index as u32)).collect();
        self.take_in(slots.into_iter());
    }

    pub(super) fn trim(&mut self, slot: SlotId, position: usize) {
        self.slots[slot.index()].trim(position);
        self.drop_stale(slot);
    }

    pub(super) fn trim_for_drafts(&mut self, slot: SlotId, position: usize) -> usize {
        let left = self.slots[slot.index()].trim_for_drafts(position);
        self.drop_stale(slot);
        left
    }

    pub(super) fn clear(&mut self, slot: SlotId) {
        self.slots[slot.index()] = Backlog::new(self.width);
        self.drop_stale(slot);
    }

    /// Copies the slot `from` to `to`.
    pub(super) fn copy(&mut self, from: SlotId, to: SlotId) {
        self.clear(to);
        self.drop_stale(from);
        let is_copied = self.slots[from.index()].num_cells() == 0 || self.head.copy_cells(from, to);
        self.slots[to.index()] = self.slots[from.index()].clone();
        if !is_copied {
            self.give_up(to);
        }
    }

    /// The slot's cells and its last hidden row, if all of its tokens are followed.
    pub(super) fn save(&mut self, slot: SlotId) -> Option<(Vec<u8>, Vec<f32>)> {
        let end = self.slots[slot.index()].end();
        self.slots[slot.index()].trim(end);
        self.take_in(std::iter::once(slot));
        let backlog = &self.slots[slot.index()];
        if !backlog.can_draft() || backlog.num_cells() == 0 {
            return None;
        }
        let last = backlog.last()?.to_vec();
        self.drop_stale(slot);
        let cells = self.head.save(slot);
        (!cells.is_empty()).then_some((cells, last))
    }

    /// About how many bytes [`Self::save`] would give.
    pub(super) fn state_bytes(&mut self, slot: SlotId) -> usize {
        self.head.state_bytes(slot)
    }

    /// Restores the saved state of `num_tokens` tokens into an emptied slot; without one, it will not draft.
    pub(super) fn restore(&mut self, slot: SlotId, state: Option<(&[u8], Vec<f32>)>, num_tokens: usize) {
        self.clear(slot);
        self.slots[slot.index()] = Backlog::unknown(self.width, num_tokens);
        let Some((cells, last)) = state.filter(|(_, last)| last.len() == self.width) else {
            return;
        };
        let is_restored = self.head.restore(slot, cells, num_tokens);
        if is_restored {
            self.slots[slot.index()] = Backlog::complete(num_tokens, last);
        } else {
            log::warn!("the draft cells of a saved state do not fit; it goes on undrafted");
            self.drop_stale(slot);
        }
    }

    /// A draft for each request.
    pub(super) fn draft(&mut self, requests: &[DraftRequest]) -> Vec<Vec<TokenId>> {
        let mut drafts = vec![Vec::new(); requests.len()];
        let mut chains = self.begin(requests);
        while !chains.is_empty() {
            for chain in &chains {
                drafts[chain.index].push(chain.token);
            }
            chains.retain(|chain| drafts[chain.index].len() < chain.max);
            if !self.extend(&mut chains) {
                break;
            }
        }
        for request in requests {
            // Beyond the next token, all cells are those of guesses.
            self.drop_stale(request.slot);
        }
        drafts
    }

    /// Takes in what the drafts continue from; returns their first tokens.
    fn begin(&mut self, requests: &[DraftRequest]) -> Vec<Chain> {
        self.take_in(requests.iter().map(|request| request.slot));
        let mut inputs = Vec::new();
        for (index, request) in requests.iter().enumerate() {
            let backlog = &mut self.slots[request.slot.index()];
            if backlog.can_draft() && backlog.end() == request.position as usize {
                let next = backlog.take_next(request.token);
                self.head.drop_from(request.slot, next.first);
                inputs.push((index, request, next));
            }
        }
        // Only rows with output: some graphs give the hidden rows of those, others of all rows.
        let rows: Vec<Row<'_>> =
            inputs.iter().flat_map(|(_, request, next)| next.rows(request.slot, true)).collect();
        if !self.head.decode(&rows) {
            for (_, request, _) in inputs {
                self.give_up(request.slot);
            }
            return Vec::new();
        }
        let chain = |(row, (index, request, next)): (usize, &(usize, &DraftRequest, Taken))| {
            let (token, hidden) = self.head.output(row)?;
            let (slot, position) = (request.slot, next.first + 1);
            Some(Chain { index: *index, slot, position, token, hidden, max: request.max })
        };
        inputs.iter().enumerate().filter_map(chain).collect()
    }

    /// Drafts one more token for each; false: it could not.
    fn extend(&mut self, chains: &mut [Chain]) -> bool {
        let row = |chain: &Chain| (chain.slot, chain.token, chain.position, chain.hidden.clone());
        let inputs: Vec<_> = chains.iter().map(row).collect();
        let rows: Vec<Row<'_>> = inputs
            .iter()
            .map(|(slot, token, position, hidden)| Row {
                slot: *slot,
                token: *token,
                position: *position,
                hidden,
                output: true,
            })
            .collect();
        if rows.is_empty() || !self.head.decode(&rows) {
            return false;
        }
        for (row, chain) in chains.iter_mut().enumerate() {
            let Some((token, hidden)) = self.head.output(row) else {
                return false;
            };
            chain.token = token;
            chain.hidden = hidden;
            chain.position += 1;
        }
        true
    }

    /// Takes in the waiting tokens of the slots together.
    fn take_in(&mut self, slots: impl Iterator<Item = SlotId>) {
        let mut batch: Vec<(SlotId, Taken)> = Vec::new();
        let mut num_rows = 0;
        for slot in slots {
            while self.slots[slot.index()].len() > 0 {
                let taken = self.slots[slot.index()].take(self.batch_size - num_rows);
                num_rows += taken.len();
                batch.push((slot, taken));
                if num_rows == self.batch_size {
                    self.take_in_batch(&std::mem::take(&mut batch));
                    num_rows = 0;
                }
            }
        }
        self.take_in_batch(&batch);
    }

    fn take_in_batch(&mut self, batch: &[(SlotId, Taken)]) {
        if batch.is_empty() {
            return;
        }
        for (slot, taken) in batch {
            self.head.drop_from(*slot, taken.first);
        }
        let rows: Vec<Row<'_>> = batch.iter().flat_map(|(slot, taken)| taken.rows(*slot, false)).collect();
        if !self.head.decode(&rows) {
            for (slot, _) in batch {
                self.give_up(*slot);
            }
        }
    }

    /// Forgets the cells of a slot, which are lost or useless.
    fn give_up(&mut self, slot: SlotId) {
        self.slots[slot.index()].give_up();
        self.drop_stale(slot);
    }

    /// Removes the cells that the slot's state does not count.
    fn drop_stale(&mut self, slot: SlotId) {
        self.head.drop_from(slot, self.slots[slot.index()].num_cells());
    }
}

impl Taken {
    /// The rows of the slot in a batch of the draft context.
    fn rows(&self, slot: SlotId, output: bool) -> impl Iterator<Item = Row<'_>> {
        let width = (self.hidden.len() / self.len()).max(1);
        let rows = self.tokens.iter().zip(self.hidden.chunks_exact(width)).enumerate();
        rows.map(move |(offset, (&token, hidden))| Row {
            slot,
            token,
            position: self.first + offset,
            hidden,
            output,
        })
    }
}
