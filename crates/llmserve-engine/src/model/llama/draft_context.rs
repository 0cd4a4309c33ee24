//! The draft context: the model's own head for multi-token prediction (MTP), with its own cells.
//!
//! The procedure is that of llama.cpp's driver (`common/speculative.cpp`), for any number of slots, and with
//! cells taken in late: see [`super::backlog`].

use std::ptr::NonNull;
use std::sync::Arc;

use llama_cpp_sys_2 as sys;

use super::backlog::{Backlog, Taken};
use super::params::CELL_PADDING;
use super::{ContextShape, Weights, params, shim};
use crate::config::{ContextConfig, KvLayout};
use crate::draft::MAX_DRAFT_TOKENS;
use crate::error::Error;
use crate::ids::{SlotId, TokenId};
use crate::lock::lock;
use crate::model::DraftRequest;
use crate::sampler::argmax;

/// Hidden rows of a slot that may wait to be taken in, in bytes. A sequence that does not draft costs nothing so
/// long, and many tokens cost less together than one by one.
const MAX_WAITING_BYTES: usize = 4 << 20;
/// So many tokens are taken in together while a prompt is computed.
const MIN_TAKEN: usize = 16;

/// A draft context, made and used on the target's thread.
pub(super) struct DraftContext {
    ctx: NonNull<sys::llama_context>,
    batch: NonNull<sys::llama_batch_ext>,
    memory: sys::llama_memory_t,
    slots: Vec<Backlog>,
    /// Values of a hidden row.
    width: usize,
    vocabulary_size: usize,
    batch_size: usize,
    is_unified: bool,
    /// Dropped last.
    weights: Arc<Weights>,
}

impl Drop for DraftContext {
    fn drop(&mut self) {
        let _guard = lock(&self.weights.making_context);
        // SAFETY: nobody else has these pointers; model and target outlive them.
        unsafe {
            sys::llama_batch_ext_free(self.batch.as_ptr());
            sys::llama_free(self.ctx.as_ptr());
        }
    }
}

/// A row of a batch of the draft context.
struct Row<'a> {
    slot: SlotId,
    token: TokenId,
    position: usize,
    /// The hidden row of the position before.
    hidden: &'a [f32],
    /// Whether logits and hidden row are wanted.
    output: bool,
}

/// A draft in the making.
struct Chain {
    /// Which request it is of.
    index: usize,
    slot: SlotId,
    position: usize,
    token: TokenId,
    hidden: Vec<f32>,
    max: usize,
}

impl DraftContext {
    /// Makes the draft context of a target whose slots hold so many tokens.
    pub(super) fn new(
        weights: &Arc<Weights>,
        target: NonNull<sys::llama_context>,
        config: &ContextConfig,
        shape: &ContextShape,
        lengths: impl Iterator<Item = usize>,
    ) -> Result<Self, Error> {
        let failed = |reason| Error::DraftContext { reason };
        let mut context_params = params::context_params(config, shape);
        context_params.ctx_type = sys::LLAMA_CONTEXT_TYPE_MTP;
        context_params.ctx_other = target.as_ptr();
        if shape.layout == KvLayout::Unified {
            // Guesses need cells too, while those of the target may all be in use.
            let num_guesses = shape.num_slots * (MAX_DRAFT_TOKENS + 1);
            context_params.n_ctx += num_guesses.next_multiple_of(CELL_PADDING) as u32;
        }
        let _guard = lock(&weights.making_context);
        // SAFETY: model and target are live and the lock held.
        let ctx = NonNull::new(unsafe { sys::llama_init_from_model(weights.as_ptr(), context_params) })
            .ok_or_else(|| failed("llama.cpp could not make it, most likely for want of memory"))?;
        // SAFETY: the context is live.
        let Some(batch) = NonNull::new(unsafe { sys::llama_batch_ext_init(ctx.as_ptr()) }) else {
            // SAFETY: nobody else has the pointer.
            unsafe { sys::llama_free(ctx.as_ptr()) };
            return Err(failed("llama.cpp could not make a batch"));
        };
        // SAFETY: the context is live; rows with output only.
        unsafe { shim::set_hidden_rows(ctx.as_ptr(), true, true) };
        // SAFETY: context, model and vocabulary are live.
        let (memory, width, vocabulary_size) = unsafe {
            (
                sys::llama_get_memory(ctx.as_ptr()),
                sys::llama_model_n_embd_out(weights.as_ptr()),
                sys::llama_vocab_n_tokens(weights.vocab()),
            )
        };
        let width = usize::try_from(width).unwrap_or(0);
        Ok(Self {
            ctx,
            batch,
            memory,
            slots: lengths.map(|len| Backlog::unknown(width, len)).collect(),
            width,
            vocabulary_size: usize::try_from(vocabulary_size).unwrap_or(0),
            batch_size: config.batch_size as usize,
            is_unified: shape.layout == KvLayout::Unified,
            weights: Arc::clone(weights),
        })
    }

    /// Values of a hidden row.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn can_draft(&self, slot: SlotId) -> bool {
        self.slots[slot.index()].can_draft()
    }

    /// Enters what the target has computed: a token and its hidden row.
    pub(super) fn push(&mut self, slot: SlotId, token: TokenId, hidden: &[f32]) {
        self.slots[slot.index()].push(token, hidden);
    }

    /// Takes in what waits of the slots where it is much.
    pub(super) fn take_in_long(&mut self, slots: &[SlotId]) {
        let is_long = |slot: &&SlotId| self.slots[slot.index()].len() >= MIN_TAKEN;
        let slots: Vec<SlotId> = slots.iter().filter(is_long).copied().collect();
        self.take_in(slots.into_iter());
    }

    /// Takes in what is too much to wait.
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

    /// Makes `to` hold what `from` holds.
    pub(super) fn copy(&mut self, from: SlotId, to: SlotId) {
        self.clear(to);
        self.drop_stale(from);
        let is_copied = self.slots[from.index()].num_cells() == 0 || self.copy_cells(from, to);
        self.slots[to.index()] = self.slots[from.index()].clone();
        if !is_copied {
            self.give_up(to);
        }
    }

    fn copy_cells(&mut self, from: SlotId, to: SlotId) -> bool {
        let (from, to) = (from.0.cast_signed(), to.0.cast_signed());
        // SAFETY: the context is live and only used here.
        unsafe {
            if self.is_unified {
                return shim::copy(self.memory, from, to);
            }
            let state = shim::state_get(self.ctx.as_ptr(), from);
            !state.is_empty() && shim::state_set(self.ctx.as_ptr(), to, &state)
        }
    }

    /// The slot's cells and its last hidden row, where all of its tokens are followed.
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
        // SAFETY: the context is live and only used here.
        let cells = unsafe { shim::state_get(self.ctx.as_ptr(), slot.0.cast_signed()) };
        (!cells.is_empty()).then_some((cells, last))
    }

    /// How many bytes the cells have that [`Self::save`] would give, about.
    pub(super) fn state_bytes(&mut self, slot: SlotId) -> usize {
        // SAFETY: the context is live and only used here.
        unsafe { shim::state_size(self.ctx.as_ptr(), slot.0.cast_signed()) }
    }

    /// Makes an emptied slot hold a saved state of so many tokens; without one, it will not draft.
    pub(super) fn restore(&mut self, slot: SlotId, state: Option<(&[u8], Vec<f32>)>, num_tokens: usize) {
        self.clear(slot);
        self.slots[slot.index()] = Backlog::unknown(self.width, num_tokens);
        let Some((cells, last)) = state.filter(|(_, last)| last.len() == self.width) else {
            return;
        };
        // SAFETY: the context is live and only used here.
        let is_restored = unsafe {
            shim::state_set(self.ctx.as_ptr(), slot.0.cast_signed(), cells)
                && sys::llama_memory_seq_pos_max(self.memory, slot.0.cast_signed()) + 1 == num_tokens as i32
        };
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
            // Beyond the token that comes next all cells are of guesses.
            self.drop_stale(request.slot);
        }
        drafts
    }

    /// Takes in what the drafts go on from; their first tokens.
    fn begin(&mut self, requests: &[DraftRequest]) -> Vec<Chain> {
        self.take_in(requests.iter().map(|request| request.slot));
        let mut inputs = Vec::new();
        for (index, request) in requests.iter().enumerate() {
            let backlog = &mut self.slots[request.slot.index()];
            if backlog.can_draft() && backlog.end() == request.position as usize {
                let next = backlog.take_next(request.token);
                self.drop_from(request.slot, next.first);
                inputs.push((index, request, next));
            }
        }
        // Rows with output only: some graphs give the hidden rows of those, others of all rows.
        let rows: Vec<Row<'_>> =
            inputs.iter().flat_map(|(_, request, next)| next.rows(request.slot, true)).collect();
        if !self.decode(&rows) {
            for (_, request, _) in inputs {
                self.give_up(request.slot);
            }
            return Vec::new();
        }
        let chain = |(row, (index, request, next)): (usize, &(usize, &DraftRequest, Taken))| {
            let (token, hidden) = self.output(row)?;
            let (slot, position) = (request.slot, next.first + 1);
            Some(Chain { index: *index, slot, position, token, hidden, max: request.max })
        };
        inputs.iter().enumerate().filter_map(chain).collect()
    }

    /// Drafts one more token each; false: it could not.
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
        if rows.is_empty() || !self.decode(&rows) {
            return false;
        }
        for (row, chain) in chains.iter_mut().enumerate() {
            let Some((token, hidden)) = self.output(row) else {
                return false;
            };
            chain.token = token;
            chain.hidden = hidden;
            chain.position += 1;
        }
        true
    }

    /// The likeliest token after a row of the last batch, and the row's hidden state.
    fn output(&self, row: usize) -> Option<(TokenId, Vec<f32>)> {
        let index = i32::try_from(row).ok()?;
        // SAFETY: the context is live.
        let (logits, hidden) = unsafe {
            (sys::llama_get_logits_ith(self.ctx.as_ptr(), index), shim::hidden_row(self.ctx.as_ptr(), index))
        };
        if logits.is_null() || hidden.is_null() {
            return None;
        }
        // SAFETY: llama.cpp keeps a row of each until the next batch.
        let (logits, hidden) = unsafe {
            (
                std::slice::from_raw_parts(logits, self.vocabulary_size),
                std::slice::from_raw_parts(hidden, self.width),
            )
        };
        let (token, logit) = argmax(logits)?;
        logit.is_finite().then(|| (TokenId(token as i32), hidden.to_vec()))
    }

    /// Takes in what waits of the slots, together.
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
            self.drop_from(*slot, taken.first);
        }
        let rows: Vec<Row<'_>> = batch.iter().flat_map(|(slot, taken)| taken.rows(*slot, false)).collect();
        if !self.decode(&rows) {
            for (slot, _) in batch {
                self.give_up(*slot);
            }
        }
    }

    /// The cells of a slot are lost or no good any more.
    fn give_up(&mut self, slot: SlotId) {
        self.slots[slot.index()].give_up();
        self.drop_stale(slot);
    }

    /// Removes the cells that the slot's state does not count.
    fn drop_stale(&mut self, slot: SlotId) {
        self.drop_from(slot, self.slots[slot.index()].num_cells());
    }

    fn drop_from(&mut self, slot: SlotId, position: usize) {
        // SAFETY: the context is live and only used here.
        if !unsafe { shim::remove_from(self.memory, slot.0.cast_signed(), position as i32) } {
            log::error!("llama.cpp did not cut back the draft cells of slot {}", slot.0);
        }
    }

    fn decode(&mut self, rows: &[Row<'_>]) -> bool {
        // SAFETY: the batch is live.
        unsafe { sys::llama_batch_ext_clear(self.batch.as_ptr()) };
        if rows.is_empty() || !rows.iter().all(|row| self.add_row(row)) {
            return false;
        }
        // SAFETY: context and batch are live and only used here.
        let code = unsafe { shim::decode(self.ctx.as_ptr(), self.batch.as_ptr()) };
        if code != 0 {
            log::warn!("a batch of {} rows failed in the draft context with code {code}", rows.len());
        }
        code == 0
    }

    fn add_row(&self, row: &Row<'_>) -> bool {
        let batch = self.batch.as_ptr();
        let position = row.position as i32;
        let hidden = sys::llama_embd { data: row.hidden.as_ptr(), n_rows: 1, n_embd: row.hidden.len() };
        // SAFETY: batch and row are live; llama.cpp checks slot, token and sizes.
        unsafe {
            let index = sys::llama_batch_ext_add_token(batch, row.slot.0.cast_signed(), row.token.0);
            index >= 0
                && sys::llama_batch_ext_set_embd_token(batch, index, hidden)
                && sys::llama_batch_ext_set_pos(batch, index, &raw const position)
                && sys::llama_batch_ext_set_output_logits(batch, index, row.output)
        }
    }
}

impl Taken {
    /// Its rows in a batch of the draft context.
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
