//! How many tokens each sequence drafts in the next step.

use std::time::Duration;

use super::acceptance::Acceptance;
use super::candidate::DraftCandidate;
use super::cost::{Shape, StepCosts};
use super::method::Methods;
use super::plan::{MIN_AGE, MIN_SAMPLES, Outlook, Plan};

/// Drafting starts, and a plan is tried, if it gives this many times the tokens per second.
const MIN_GAIN: f64 = 1.02;
/// What probes may cost: steps per step, and the most credit that is saved up.
const PROBE_SHARE: f64 = 0.006;
const MAX_CREDIT: f64 = 2.0;
/// The best plan must be better than no drafts by this many deviations, or the step without is measured again.
const CHECKED_DEVIATIONS: f64 = 2.0;
/// It is also measured again after the first number of steps for each measurement of the best plan, up to the second:
/// its cost may have been mistaken.
const STEPS_PER_SAMPLE: u64 = 8;
const LAST_CHECK: u64 = 128;

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
/// second is taken. Plans that may be better are tried now and then, at a cost that is bounded by a credit.
/// Two controllers with the same records choose the same.
#[derive(Debug)]
pub(crate) struct DraftController {
    costs: StepCosts,
    methods: Methods,
    /// What probes may cost, in steps.
    credit: f64,
    /// Steps since one was planned without drafts of adaptive sequences.
    num_drafted: u64,
    /// Sequences that were asked for a draft in the step that was planned last.
    num_heads: usize,
    num_lookups: usize,
}

impl DraftController {
    pub(crate) fn new() -> Self {
        Self {
            costs: StepCosts::default(),
            methods: Methods::new(),
            credit: MAX_CREDIT,
            num_drafted: 0,
            num_heads: 0,
            num_lookups: 0,
        }
    }

    /// The acceptance of a new sequence: what this engine has seen, until it has records of its own.
    pub(crate) fn acceptance(&self, is_head: bool) -> Acceptance {
        self.methods.of(is_head).history.start()
    }

    /// The draft length of each sequence; these are all that decode in the next step. `may_probe`: the step will be
    /// recorded, so that one that is worse than the best can teach something.
    pub(crate) fn choose(&mut self, sequences: &[DraftCandidate<'_>], may_probe: bool) -> Vec<usize> {
        self.credit = (self.credit + PROBE_SHARE).min(MAX_CREDIT);
        let plan = self.plan(sequences, may_probe);
        self.num_drafted = if plan.len > 0 { self.num_drafted + 1 } else { 0 };
        (self.num_heads, self.num_lookups) = (0, 0);
        let mut lens = Vec::with_capacity(sequences.len());
        for (index, sequence) in sequences.iter().enumerate() {
            let len = plan.len_of(index, sequence);
            lens.push(len);
            match (len, sequence.is_head) {
                (0, _) if sequence.max > 0 => sequence.acceptance.count_step(),
                (0, _) => {}
                (_, true) => self.num_heads += 1,
                (_, false) => self.num_lookups += 1,
            }
        }
        lens
    }

    /// The best plan, or one that explores what is unknown.
    fn plan(&mut self, sequences: &[DraftCandidate<'_>], may_probe: bool) -> Plan {
        let outlook = Outlook { sequences, costs: &self.costs, methods: &self.methods };
        let base = outlook.base();
        let plans = outlook.plans();
        let best = plans
            .iter()
            .filter(|plan| plan.num_samples >= MIN_SAMPLES)
            .max_by(|a, b| a.rate().total_cmp(&b.rate()))
            .filter(|plan| plan.rate() > base.rate() * MIN_GAIN)
            .unwrap_or(&base);
        if !may_probe {
            return best.clone();
        }
        if best.len == 0 && self.costs.num_undrafted(sequences.len()) < MIN_SAMPLES {
            // The time of a step without drafts comes first: everything else is judged by it.
            return base;
        }
        if best.len > 0 && is_check_due(&base, best, self.num_drafted) {
            return base;
        }
        let probe = plans
            .iter()
            .filter(|plan| plan.loss(best) <= self.credit)
            .filter(|plan| plan.hoped_rate(best, sequences) > best.rate() * MIN_GAIN)
            .min_by(|a, b| a.loss(best).total_cmp(&b.loss(best)));
        if let Some(probe) = probe {
            self.credit -= probe.loss(best).max(0.0);
        }
        probe.unwrap_or(best).clone()
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
            let method = self.methods.of_mut(num_heads > 0);
            method.record_found(num_heads + num_lookups, step.num_drafting);
        }
    }

    /// Records a draft of any sequence.
    pub(crate) fn record_acceptance(&mut self, is_head: bool, drafted: usize, accepted: usize) {
        self.methods.of_mut(is_head).history.record(drafted, accepted);
    }
}

/// Whether the step without drafts of adaptive sequences is to be measured again after some with: the best plan may
/// be no better, or it is new.
fn is_check_due(base: &Plan, best: &Plan, num_drafted: u64) -> bool {
    let doubt = (CHECKED_DEVIATIONS * best.deviation).exp();
    let latest = (STEPS_PER_SAMPLE * u64::from(best.num_samples)).min(LAST_CHECK);
    num_drafted >= MIN_AGE && (best.rate() < base.rate() * doubt || num_drafted >= latest)
}
