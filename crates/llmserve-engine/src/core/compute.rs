//! One batch: build the rows, decode them, draw from the logits, roll rejected drafts back.

use std::time::{Duration, Instant};

use crate::error::Error;
use crate::event::{Delta, Event};
use crate::ids::TokenId;
use crate::kv::common_prefix;
use crate::model::{DecodeError, Row};
use crate::scheduler::{Plan, Share};
use crate::sequence::{End, Sequence};

use super::Core;
use super::masks::MaskThread;

/// The rows of a step and whose they are.
pub(super) struct Batch {
    rows: Vec<Row>,
    pub(super) parts: Vec<Part>,
}

/// The rows of one sequence.
pub(super) struct Part {
    /// The sequence's index in `running`.
    pub(super) index: usize,
    /// Its pending tokens in this batch.
    num_tokens: usize,
    /// Guesses behind them.
    pub(super) draft: Vec<TokenId>,
    /// The row of its last pending token, where that is in this batch: the next token is drawn there.
    output_row: Option<usize>,
}

/// How a sequence came out of a step.
enum Outcome {
    Goes,
    Ended(End),
    Failed(Error),
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

    /// Computes the batch, whose drafts took so long to make; false: nothing was computed that could be drawn from.
    pub(super) fn decode(&mut self, plan: &Plan, batch: &Batch, drafting: Duration) -> bool {
        let num_masks = self.start_masks(&batch.parts);
        let started = Instant::now();
        let result = self.kv.compute().decode(&batch.rows);
        if result.is_ok() {
            self.follow_prompts(plan);
        }
        let took = started.elapsed();
        self.finish_masks(num_masks);
        self.stats.decode_seconds += took.as_secs_f64();
        match result {
            Ok(()) => {
                self.stats.steps += 1;
                self.stats.rows += batch.rows.len() as u64;
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

    /// Has masks computed while the batch is decoded. Without the thread they are computed when they are
    /// used.
    fn start_masks(&mut self, parts: &[Part]) -> usize {
        let is_needed = |part: &Part| part.draws() && self.running[part.index].is_constrained();
        if self.masks.is_none() && parts.iter().any(is_needed) {
            self.masks = MaskThread::start()
                .inspect_err(|error| log::warn!("no thread for masks could be started: {error}"))
                .ok();
        }
        self.masks.as_ref().map_or(0, |masks| masks.send(parts, &mut self.running))
    }

    fn finish_masks(&mut self, num_masks: usize) {
        if let Some(masks) = self.masks.as_ref().filter(|_| num_masks > 0) {
            masks.receive(num_masks, &mut self.running);
        }
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

    /// Draws the next tokens, hands them out, and retires what has ended.
    pub(super) fn emit(&mut self, parts: &[Part]) {
        let mut outcomes: Vec<(usize, Outcome)> =
            parts.iter().map(|part| (part.index, self.advance(part))).collect();
        // From the back, so that taking one out leaves the other indices right.
        outcomes.sort_unstable_by_key(|(index, _)| std::cmp::Reverse(*index));
        for (index, outcome) in outcomes {
            match outcome {
                Outcome::Goes => {}
                Outcome::Ended(end) => self.finish(index, end),
                Outcome::Failed(error) => self.fail(index, error),
            }
        }
    }

    fn advance(&mut self, part: &Part) -> Outcome {
        self.running[part.index].num_computed += part.num_tokens;
        self.take_checkpoint(part.index);
        let Some(output_row) = part.output_row else {
            return Outcome::Goes;
        };
        let mut delta = Delta::default();
        let (outcome, accepted) = self.draw(part, output_row, &mut delta);
        let sequence = &mut self.running[part.index];
        self.stats.completion_tokens += delta.tokens.len() as u64;
        if !delta.tokens.is_empty() {
            sequence.outbox.push(Event::Delta(delta), &mut self.pending);
        }
        let has_ended = !matches!(outcome, Outcome::Goes);
        self.record_draft(part.index, part.draft.len(), accepted, has_ended);
        if accepted < part.draft.len() {
            self.drop_rejected(part.index);
        }
        outcome
    }

    /// Draws from the last pending row, and from each further one whose draft equals what was drawn.
    fn draw(&mut self, part: &Part, output_row: usize, delta: &mut Delta) -> (Outcome, usize) {
        let mut accepted = 0;
        loop {
            let Some(logits) = self.kv.computed().logits(output_row + accepted) else {
                return (Outcome::Failed(Error::InvalidLogits), accepted);
            };
            let sequence = &mut self.running[part.index];
            let len = sequence.tokens.len();
            match sequence.draw(logits, &*self.vocabulary, &mut self.scratch, delta) {
                Ok(None) => {}
                Ok(Some(end)) => {
                    return (
                        sequence.check_output().map_or_else(Outcome::Failed, |()| Outcome::Ended(end)),
                        accepted,
                    );
                }
                Err(error) => return (Outcome::Failed(error), accepted),
            }
            // One token, and those that a constraint forced behind it.
            let drawn = &sequence.tokens[len..];
            let num_right = common_prefix(&part.draft[accepted..], drawn);
            let is_all = num_right == drawn.len();
            accepted += num_right;
            sequence.num_computed += num_right;
            if !is_all {
                return (Outcome::Goes, accepted);
            }
        }
    }
}

impl Part {
    /// Whether a token is drawn from its rows.
    pub(super) fn draws(&self) -> bool {
        self.output_row.is_some()
    }
}

impl Batch {
    fn add(&mut self, sequence: &Sequence, share: Share, draft: Vec<TokenId>) {
        let Some(slot) = sequence.slot else {
            return;
        };
        let first = sequence.num_computed;
        let end = first + share.num_tokens;
        let is_last = end == sequence.tokens.len();
        let output_row = is_last.then(|| self.rows.len() + share.num_tokens - 1);
        let pending = sequence.tokens[first..end].iter();
        for (offset, &token) in pending.chain(&draft).enumerate() {
            self.rows.push(Row {
                slot,
                token,
                position: (first + offset) as u32,
                output: is_last && offset + 1 >= share.num_tokens,
            });
        }
        self.parts.push(Part { index: share.index, num_tokens: share.num_tokens, draft, output_row });
    }
}
