//! Drafts: how long they are, where they come from, and what becomes of them.

use std::time::{Duration, Instant};

use crate::draft::{DraftCandidate, DraftStep, SequenceDrafts};
use crate::ids::{SlotId, TokenId};
use crate::model::{Compute, DraftRequest};
use crate::scheduler::Plan;
use crate::sequence::Sequence;

use super::Core;
use super::compute::Batch;

/// The drafts of a step, by the index of their sequence.
#[derive(Default)]
pub(super) struct Drafts {
    pub(super) tokens: Vec<Vec<TokenId>>,
    /// How long they took to make.
    pub(super) took: Duration,
}

impl Core {
    /// How many tokens each running sequence should draft in the next step; empty if nobody drafts.
    pub(super) fn wanted_drafts(&mut self) -> Vec<usize> {
        if self.running.iter().all(|sequence| sequence.drafts.is_none()) {
            return Vec::new();
        }
        // A sequence whose drawn token waits for its constraint does not decode.
        let decodes = |sequence: &Sequence| sequence.is_decoding() && !sequence.output.is_held();
        let decoding = self.running.iter().enumerate().filter(|(_, sequence)| decodes(sequence));
        let decoding: Vec<usize> = decoding.map(|(index, _)| index).collect();
        let unused = self.draft_controller.acceptance(false);
        let candidates: Vec<DraftCandidate<'_>> = decoding
            .iter()
            .map(|&index| {
                let sequence = &self.running[index];
                let drafts = sequence.drafts.as_ref();
                DraftCandidate {
                    acceptance: drafts.map_or(&unused, |drafts| &drafts.acceptance),
                    max: max_draft(sequence, self.kv.computed()),
                    adaptive: drafts.is_some_and(SequenceDrafts::is_adaptive),
                    is_head: drafts.is_some_and(SequenceDrafts::is_head),
                }
            })
            .collect();
        // A step with a chunk is not recorded, and a probe there would teach nothing.
        let may_probe =
            self.running.iter().all(|sequence| sequence.is_decoding() || sequence.output.is_held());
        let chosen = self.draft_controller.choose(&candidates, may_probe);
        let mut wanted = vec![0; self.running.len()];
        for (index, len) in decoding.into_iter().zip(chosen) {
            wanted[index] = len;
        }
        wanted
    }

    /// Makes the drafts that were planned.
    pub(super) fn draft(&mut self, plan: &Plan) -> Drafts {
        if plan.decode.iter().all(|share| share.num_drafted == 0) {
            return Drafts::default();
        }
        let mut tokens = vec![Vec::new(); self.running.len()];
        let mut requests: Vec<(usize, DraftRequest)> = Vec::new();
        for share in plan.decode.iter().filter(|share| share.num_drafted > 0) {
            let sequence = &mut self.running[share.index];
            match sequence.draft_request(share.num_drafted) {
                Some(request) => requests.push((share.index, request)),
                None => tokens[share.index] = sequence.draft(share.num_drafted),
            }
        }
        let took = self.ask_head(requests, &mut tokens);
        for (sequence, draft) in self.running.iter_mut().zip(&mut tokens) {
            let drafted = draft.len();
            sequence.output.cut_draft(draft, &*self.vocabulary);
            // Nothing is verified then, and the draft was made in vain.
            if drafted > 0
                && draft.is_empty()
                && let Some(drafts) = &mut sequence.drafts
            {
                drafts.acceptance.record(drafted, 0);
            }
        }
        Drafts { tokens, took }
    }

    /// Has the head draft; returns how long that took, without the backlog, which is not the draft's cost.
    fn ask_head(
        &mut self,
        mut requests: Vec<(usize, DraftRequest)>,
        tokens: &mut [Vec<TokenId>],
    ) -> Duration {
        if requests.is_empty() {
            return Duration::ZERO;
        }
        // By slot, as in any batch.
        requests.sort_unstable_by_key(|(_, request)| request.slot);
        let (indices, requests): (Vec<usize>, Vec<DraftRequest>) = requests.into_iter().unzip();
        let slots: Vec<SlotId> = requests.iter().map(|request| request.slot).collect();
        let started = Instant::now();
        self.kv.compute().take_in(&slots);
        let waited = started.elapsed();
        for (index, draft) in indices.into_iter().zip(self.kv.compute().draft(&requests)) {
            tokens[index] = draft;
        }
        let took = started.elapsed();
        self.stats.draft_seconds += took.as_secs_f64();
        took.saturating_sub(waited)
    }

    /// Has the draft context follow the prompts of sequences that will draft, chunk by chunk: all at once would
    /// hold others up.
    pub(super) fn follow_prompts(&mut self, plan: &Plan) {
        let drafts = |index: usize| self.running[index].drafts.as_ref().is_some_and(SequenceDrafts::is_head);
        let shares = plan.prefill.iter().filter(|share| drafts(share.index));
        let slots: Vec<SlotId> = shares.filter_map(|share| self.running[share.index].slot).collect();
        if !slots.is_empty() {
            self.kv.compute().take_in(&slots);
        }
    }

    /// Records the time of a step, if it is like those for which the draft length is chosen.
    pub(super) fn record_draft_step(&mut self, plan: &Plan, batch: &Batch, took: Duration) {
        let is_plain = plan.prefill.is_empty() && plan.decode.iter().all(|share| share.num_tokens == 1);
        if !is_plain {
            return;
        }
        let lengths = || batch.parts.iter().map(|part| part.draft.len()).filter(|&len| len > 0);
        self.draft_controller.record_step(&DraftStep {
            num_decoding: plan.decode.len(),
            num_drafting: lengths().count(),
            num_draft_rows: lengths().sum(),
            took,
        });
    }

    /// Records how a draft fared, unless its sequence's end cut it off.
    pub(super) fn record_draft(&mut self, index: usize, drafted: usize, accepted: usize, has_ended: bool) {
        if drafted == 0 {
            return;
        }
        self.stats.draft_tokens += drafted as u64;
        self.stats.accepted_tokens += accepted as u64;
        self.stats.drafts += 1;
        let sequence = &mut self.running[index];
        sequence.note_draft(drafted, accepted);
        if has_ended && accepted < drafted {
            return;
        }
        if let Some(drafts) = &mut sequence.drafts {
            drafts.acceptance.record(drafted, accepted);
            self.draft_controller.record_acceptance(drafts.is_head(), drafted, accepted);
        }
    }

    /// Removes the cells of drafts that were not accepted. Where the cache cannot be cut back the
    /// sequence is prefilled again from its tokens.
    pub(super) fn drop_rejected(&mut self, index: usize) {
        let Some(slot) = self.running[index].slot else {
            return;
        };
        let sequence = &mut self.running[index];
        sequence.num_computed = self.kv.roll_back(slot, sequence.num_computed);
    }
}

/// The most tokens that a sequence may draft now, so that all could be accepted and all taken back.
fn max_draft(sequence: &Sequence, context: &dyn Compute) -> usize {
    let (Some(drafts), Some(slot)) = (&sequence.drafts, sequence.slot) else {
        return 0;
    };
    // Several rows are rounded differently from one, and how many there are depends on timing.
    if context.limits().is_deterministic {
        return 0;
    }
    // Otherwise the chunks of a prompt would decide whether its first token is drafted.
    if sequence.num_generated() == 0 {
        return 0;
    }
    // The head continues from the hidden row of the token before the last.
    let can_draft = !drafts.is_head() || (sequence.num_pending() == 1 && context.can_draft(slot));
    if !can_draft {
        return 0;
    }
    drafts.draft_len().min(sequence.draft_room()).min(context.limits().max_rollback)
}
