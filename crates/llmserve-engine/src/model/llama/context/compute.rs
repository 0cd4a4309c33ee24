//! Batches in, logits and drafts out.

use llama_cpp_sys_2 as sys;

use super::LlamaContext;
use crate::error::Error;
use crate::ids::{SlotId, TokenId};
use crate::model::llama::draft_context::DraftContext;
use crate::model::llama::kept_logits::KeptLogits;
use crate::model::llama::shim;
use crate::model::llama::tiles::{self, TILE};
use crate::model::{Compute, Context, ContextLimits, DecodeError, DraftRequest, Row};

impl LlamaContext {
    /// Computes rows in one call.
    fn compute(&mut self, rows: &[Row]) -> Result<(), DecodeError> {
        // SAFETY: the batch is live.
        unsafe { sys::llama_batch_ext_clear(self.raw.batch()) };
        if !rows.iter().all(|row| self.add_row(row)) {
            return Err(DecodeError::Failed(-1));
        }
        // SAFETY: context and batch are live and only used here.
        match unsafe { shim::decode(self.raw.ctx(), self.raw.batch()) } {
            0 => {
                self.rollback.note(rows);
                self.follow(rows)
            }
            1 => Err(DecodeError::KvFull),
            code => Err(DecodeError::Failed(code)),
        }
    }

    /// The failure of a batch whose first parts had been computed: if cells were missing, the slots are restored as
    /// far as possible.
    fn after_failed_part(
        &mut self,
        computed: &[Vec<usize>],
        rows: &[Row],
        error: DecodeError,
    ) -> DecodeError {
        if error != DecodeError::KvFull {
            return error;
        }
        for part in computed {
            for own in part.chunk_by(|&a, &b| rows[a].slot == rows[b].slot) {
                let Row { slot, position, .. } = rows[own[0]];
                if !self.can_trim(slot, position as usize) || !self.trim(slot, position as usize) {
                    return DecodeError::Failed(1);
                }
            }
        }
        error
    }

    /// Logits of the last call.
    fn computed_logits(&self, index: usize) -> Option<&[f32]> {
        // SAFETY: the context is live.
        let logits = unsafe { sys::llama_get_logits_ith(self.raw.ctx(), i32::try_from(index).ok()?) };
        if logits.is_null() {
            return None;
        }
        // SAFETY: llama.cpp gives one value per token, valid until the next decode, which needs `&mut self`.
        Some(unsafe { std::slice::from_raw_parts(logits, self.vocabulary_size) })
    }

    /// Hands what was computed to the draft context.
    fn follow(&mut self, rows: &[Row]) -> Result<(), DecodeError> {
        let Some(draft) = &mut self.draft else {
            return Ok(());
        };
        // SAFETY: the context is live and only used here.
        let hidden = unsafe { shim::hidden_rows(self.raw.ctx()) };
        if hidden.is_null() {
            return Err(DecodeError::Failed(-1));
        }
        // SAFETY: one hidden row for each row of the batch, in its order, until the next batch.
        let hidden = unsafe { std::slice::from_raw_parts(hidden, rows.len() * draft.width()) };
        for (row, hidden) in rows.iter().zip(hidden.chunks_exact(draft.width())) {
            draft.push(row.slot, row.token, hidden);
        }
        draft.take_in_oversized();
        Ok(())
    }

    fn add_row(&mut self, row: &Row) -> bool {
        let batch = self.raw.batch();
        let position = row.position.cast_signed();
        // SAFETY: the batch is live; llama.cpp checks slot, token and size.
        unsafe {
            let index = sys::llama_batch_ext_add_token(batch, row.slot.0.cast_signed(), row.token.0);
            index >= 0
                && sys::llama_batch_ext_set_pos(batch, index, &raw const position)
                && sys::llama_batch_ext_set_output_logits(batch, index, row.output)
        }
    }
}

impl Compute for LlamaContext {
    fn limits(&self) -> &ContextLimits {
        &self.limits
    }

    fn decode(&mut self, rows: &[Row]) -> Result<(), DecodeError> {
        let parts = match self.limits.tile {
            TILE => tiles::parts(rows, self.limits.is_deterministic),
            _ if self.limits.is_deterministic => tiles::sequences(rows),
            _ => self.rollback.parts(rows),
        };
        self.rollback.forget_all();
        self.kept = None;
        if parts.len() <= 1 {
            return self.compute(rows);
        }
        let mut kept = KeptLogits::new(rows.len());
        for (number, part) in parts.iter().enumerate() {
            let own: Vec<Row> = part.iter().map(|&index| rows[index]).collect();
            if let Err(error) = self.compute(&own) {
                return Err(self.after_failed_part(&parts[..number], rows, error));
            }
            for (row, &index) in part.iter().enumerate().filter(|(_, index)| rows[**index].output) {
                kept.keep(index, self.computed_logits(row));
            }
        }
        self.kept = Some(kept);
        Ok(())
    }

    fn logits(&self, index: usize) -> Option<&[f32]> {
        match &self.kept {
            Some(kept) => kept.get(index),
            None => self.computed_logits(index),
        }
    }

    fn open_head(&mut self) -> Result<(), Error> {
        if !self.weights.has_draft_head() {
            return Err(Error::NoDraftHead);
        }
        if self.draft.is_none() {
            let lengths: Vec<usize> = self.slots().map(|slot| self.positions(slot).1).collect();
            let (config, shape) = (&self.config, &self.shape);
            self.draft =
                Some(DraftContext::new(&self.weights, &self.raw, config, shape, lengths.into_iter())?);
            // SAFETY: the context is live: hidden rows of all rows.
            unsafe { shim::set_hidden_rows(self.raw.ctx(), true, false) };
        }
        Ok(())
    }

    fn close_head(&mut self) {
        if self.draft.take().is_some() {
            // SAFETY: the context is live.
            unsafe { shim::set_hidden_rows(self.raw.ctx(), false, true) };
        }
    }

    fn can_draft(&self, slot: SlotId) -> bool {
        self.draft.as_ref().is_some_and(|draft| draft.can_draft(slot))
    }

    fn take_in(&mut self, slots: &[SlotId]) {
        if let Some(draft) = &mut self.draft {
            draft.take_in_long(slots);
        }
    }

    fn draft(&mut self, requests: &[DraftRequest]) -> Vec<Vec<TokenId>> {
        match &mut self.draft {
            Some(draft) => draft.draft(requests),
            None => vec![Vec::new(); requests.len()],
        }
    }
}
