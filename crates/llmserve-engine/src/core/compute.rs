//! One batch: build the rows and decode them.

use std::ops::Range;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::ids::TokenId;
use crate::model::{DecodeError, Row};
use crate::output::Output;
use crate::scheduler::{Plan, Share};
use crate::sequence::Sequence;

use super::Core;

/// The rows of a step and their sequences.
pub(super) struct Batch {
    rows: Vec<Row>,
    pub(super) parts: Vec<Part>,
}

/// The rows of one sequence.
pub(super) struct Part {
    /// The sequence's index in `running`.
    pub(super) index: usize,
    /// The sequence's pending tokens in this batch.
    pub(super) num_tokens: usize,
    /// Guesses behind them.
    pub(super) draft: Vec<TokenId>,
    /// The rows whose logits score the prompt's next tokens.
    pub(super) scored_rows: Range<usize>,
    /// The row of its last pending token, if that is in this batch and a token is to be drawn there.
    pub(super) output_row: Option<usize>,
}

impl Core {
    pub(super) fn build_batch(&self, plan: &Plan, mut drafts: Vec<Vec<TokenId>>) -> Batch {
        let mut batch = Batch { rows: Vec::new(), parts: Vec::new() };
        let mut shares: Vec<&Share> = plan.shares().collect();
        // llama.cpp computes rows together as far as their sequence ids are consecutive.
        shares.sort_unstable_by_key(|share| self.running[share.index].slot);
        for share in shares {
            let mut draft = drafts.get_mut(share.index).map(std::mem::take).unwrap_or_default();
            draft.truncate(share.num_drafted);
            batch.add(&self.running[share.index], *share, draft);
        }
        batch
    }

    /// Computes the batch, whose drafts took some time to make; false: there is nothing to draw from.
    pub(super) fn decode(&mut self, plan: &Plan, batch: &Batch, drafting: Duration) -> bool {
        let (result, mut took) = self.decode_beside_masks(batch);
        if result.is_ok() {
            let started = Instant::now();
            self.follow_prompts(plan);
            took += started.elapsed();
        }
        self.stats.decode_seconds += took.as_secs_f64();
        match result {
            Ok(()) => {
                self.stats.steps += 1;
                self.stats.rows += batch.rows.len() as u64;
                self.stats.prefill_rows += plan.num_prefill_rows() as u64;
                self.scheduler.record(plan, drafting + took);
                self.record_draft_step(plan, batch, drafting + took);
                true
            }
            Err(DecodeError::KvFull) if self.make_room() => false,
            Err(DecodeError::KvFull) => {
                self.fail_batch(batch, 1);
                false
            }
            Err(DecodeError::Failed(code)) => {
                self.fail_batch(batch, code);
                false
            }
        }
    }

    /// Decodes, and meanwhile computes masks of the sequences that will draw, or looks for what a held token waits
    /// for. A mask that is not done by then is computed where it is used.
    fn decode_beside_masks(&mut self, batch: &Batch) -> (Result<(), DecodeError>, Duration) {
        let mut drawing = vec![false; self.running.len()];
        for part in batch.parts.iter().filter(|part| part.output_row.is_some()) {
            drawing[part.index] = true;
        }
        let outputs = self.running.iter_mut().map(|sequence| &mut sequence.output).zip(drawing);
        let outputs = outputs.filter(|(output, draws)| output.is_held() || *draws && output.is_constrained());
        let constrained: Vec<&mut Output> = outputs.map(|(output, _)| output).collect();
        let context = self.kv.compute();
        self.pool.beside(constrained, Output::work_ahead, || {
            let started = Instant::now();
            (context.decode(&batch.rows), started.elapsed())
        })
    }

    /// A failing decode fails the sequences in it, and nobody else.
    fn fail_batch(&mut self, batch: &Batch, code: i32) {
        log::error!("a step of {} rows failed with code {code}", batch.rows.len());
        let mut indices: Vec<usize> = batch.parts.iter().map(|part| part.index).collect();
        indices.sort_unstable();
        for index in indices.into_iter().rev() {
            self.fail(index, Error::DecodeFailed { code });
        }
    }
}

impl Batch {
    fn add(&mut self, sequence: &Sequence, share: Share, draft: Vec<TokenId>) {
        let Some(slot) = sequence.slot else {
            return;
        };
        let first = sequence.num_computed;
        let end = first + share.num_tokens;
        let draws = end == sequence.tokens.len() && sequence.has_room();
        let output_row = draws.then(|| self.rows.len() + share.num_tokens - 1);
        let unscored = sequence.unscored();
        let scored = unscored.start.min(end)..unscored.end.min(end);
        let row_of = |position: usize| self.rows.len() + position.saturating_sub(first);
        let scored_rows = row_of(scored.start)..row_of(scored.end);
        let pending = sequence.tokens[first..end].iter();
        for (offset, &token) in pending.chain(&draft).enumerate() {
            let position = first + offset;
            let output = scored.contains(&position) || (draws && offset + 1 >= share.num_tokens);
            self.rows.push(Row { slot, token, position: position as u32, output });
        }
        let Share { index, num_tokens, .. } = share;
        self.parts.push(Part { index, num_tokens, draft, scored_rows, output_row });
    }
}
