//! How many tokens each sequence drafts in the next step.

use std::time::Duration;

use super::acceptance::Acceptance;
use super::candidate::DraftCandidate;
use super::cost::{Shape, StepCosts};
use super::plan::{Histories, Outlook, Plan};

/// What probes may cost: steps per step, and the most credit that is saved up.
const PROBE_SHARE: f64 = 0.006;
const MAX_CREDIT: f64 = 2.0;

/// The outcome of a step without prompt chunks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DraftStep {
    pub(crate) num_decoding: usize,
    pub(crate) num_drafting: usize,
    pub(crate) num_draft_rows: usize,
    /// The draft head and the decode together.
    pub(crate) took: Duration,
}

/// Chooses draft lengths so that drafting pays off, by the time of steps and the tokens accepted.
///
/// All adaptive sequences that draft in a step get the same length: sequences of unequal row counts may be
/// computed in several passes, each of which reads the weights again. The plan with the most expected tokens per
/// second is taken. Records fade to hopes, and the plan that looks best by the hopes is tried at a cost that is
/// bounded by a credit: so everything is tried again now and then, the sooner the less it costs.
/// Two controllers with the same records choose the same.
#[derive(Debug)]
pub(crate) struct DraftController {
    costs: StepCosts,
    histories: Histories,
    /// What probes may cost, in steps.
    credit: f64,
    /// Sequences that were asked for a draft in the step that was planned last.
    num_heads: usize,
    num_lookups: usize,
}

impl DraftController {
    pub(crate) fn new() -> Self {
        Self {
            costs: StepCosts::default(),
            histories: Histories::new(),
            credit: MAX_CREDIT,
            num_heads: 0,
            num_lookups: 0,
        }
    }

    /// The acceptance of a new sequence: what this engine has seen, until it has records of its own.
    pub(crate) fn acceptance(&self, is_head: bool) -> Acceptance {
        self.histories.of(is_head).start()
    }

    /// The draft length of each sequence; these are all that decode in the next step. `may_probe`: the step will be
    /// recorded, so that one that is worse than the best can teach something.
    pub(crate) fn choose(&mut self, sequences: &[DraftCandidate<'_>], may_probe: bool) -> Vec<usize> {
        self.credit = (self.credit + PROBE_SHARE).min(MAX_CREDIT);
        let lens = self.plan(sequences, may_probe).lens;
        (self.num_heads, self.num_lookups) = (0, 0);
        for (sequence, &len) in sequences.iter().zip(&lens) {
            match (len, sequence.is_head) {
                (0, _) if sequence.max > 0 => sequence.acceptance.count_idle(),
                (0, _) => {}
                (_, true) => self.num_heads += 1,
                (_, false) => self.num_lookups += 1,
            }
        }
        lens
    }

    /// The best plan, or one that explores what is unknown.
    fn plan(&mut self, sequences: &[DraftCandidate<'_>], may_probe: bool) -> Plan {
        let known = Outlook::new(sequences, &self.costs, &self.histories, false);
        let base = known.base();
        if may_probe && base.drafts_nothing() && self.costs.is_undrafted_due(sequences.len()) {
            return base;
        }
        let best = known.best();
        if !may_probe {
            return best;
        }
        let hoped = Outlook::new(sequences, &self.costs, &self.histories, true).best();
        let probe = known.plan(hoped.lens);
        let loss = probe.loss(&best);
        if loss > self.credit {
            return best;
        }
        self.credit -= loss;
        probe
    }

    /// Records a step without prompt chunks that was planned by the last call of [`choose`](Self::choose).
    pub(crate) fn record_step(&mut self, step: &DraftStep) {
        let num_heads = std::mem::take(&mut self.num_heads);
        let num_lookups = std::mem::take(&mut self.num_lookups);
        if step.num_decoding == 0 {
            return;
        }
        let shape = Shape::new(step.num_decoding, step.num_drafting, step.num_draft_rows, num_heads > 0);
        if num_heads == 0 || shape.is_some() {
            // Otherwise the head ran in vain, and no other step is comparable.
            self.costs.record(step.num_decoding, shape, step.took.as_secs_f64());
        }
        if num_heads == 0 || num_lookups == 0 {
            let history = self.histories.of_mut(num_heads > 0);
            history.record_found(num_heads + num_lookups, step.num_drafting);
        }
    }

    /// Records a draft of any sequence.
    pub(crate) fn record_acceptance(&mut self, is_head: bool, drafted: usize, accepted: usize) {
        self.histories.of_mut(is_head).record(drafted, accepted);
    }
}
