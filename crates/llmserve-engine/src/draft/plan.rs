//! What to expect of the ways to draft in the next step.

use super::MAX_DRAFT_TOKENS;
use super::candidate::DraftCandidate;
use super::cost::{Shape, StepCosts};
use super::method::Methods;

/// Deviations by which the cost of a plan may be lower than measured.
const OPTIMISM: f64 = 2.0;
/// The acceptance that is hoped for when a sequence that has stopped drafting tries again.
const HOPED_RATE: f64 = 0.9;
/// Measurements that a cost must have before it counts: one step may have been disturbed.
pub(super) const MIN_SAMPLES: u32 = 2;
/// Steps after which the cost of a plan is worth another measurement.
pub(super) const MIN_AGE: u64 = 8;

/// One way to draft, or not to draft, in the next step.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// Which of the adaptive sequences draft.
    drafts: Vec<bool>,
    /// Tokens of their drafts; 0: none drafts.
    pub(super) len: usize,
    /// Expected tokens of the step.
    pub(super) tokens: f64,
    /// What each sequence would add to them if it turned out to be predictable.
    hopes: Vec<f64>,
    /// The step's time relative to one without drafts, and the uncertainty (standard deviation) of its logarithm.
    cost: f64,
    pub(super) deviation: f64,
    pub(super) num_samples: u32,
    age: u64,
}

impl Plan {
    /// Tokens per time.
    pub(super) fn rate(&self) -> f64 {
        self.tokens / self.cost
    }

    /// The time that is lost with this plan instead of the best, in steps of the best.
    pub(super) fn loss(&self, best: &Self) -> f64 {
        self.cost / best.cost - self.tokens / best.tokens
    }

    /// The tokens per time that this plan may show: its cost may be lower than known, its texts more predictable.
    pub(super) fn hoped_rate(&self, best: &Self, sequences: &[DraftCandidate<'_>]) -> f64 {
        let loss = self.loss(best);
        let joining = || (0..sequences.len()).filter(|&index| self.drafts[index] && !best.drafts[index]);
        let hope = if joining().any(|index| sequences[index].acceptance.is_due(loss)) {
            joining().map(|index| self.hopes[index]).sum()
        } else {
            0.0
        };
        // The cost beside others shows in turns, not in a row.
        let may_teach = self.num_samples < MIN_SAMPLES || self.age >= MIN_AGE;
        let doubt = if may_teach { OPTIMISM * self.deviation.hypot(best.deviation) } else { 0.0 };
        (self.tokens + hope) / self.cost * doubt.exp()
    }

    /// The draft length of a sequence.
    pub(super) fn len_of(&self, index: usize, sequence: &DraftCandidate<'_>) -> usize {
        match (sequence.adaptive, self.drafts[index]) {
            (false, _) => sequence.max,
            (true, true) => self.len.min(sequence.max),
            (true, false) => 0,
        }
    }
}

/// The next step, and what is known about it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outlook<'a> {
    pub(super) sequences: &'a [DraftCandidate<'a>],
    pub(super) costs: &'a StepCosts,
    pub(super) methods: &'a Methods,
}

impl Outlook<'_> {
    /// The plan without drafts of adaptive sequences.
    pub(super) fn base(&self) -> Plan {
        self.plan(vec![false; self.sequences.len()], 0)
    }

    /// The other plans to compare: for each length, drafts of all, and of those that have not stopped drafting.
    pub(super) fn plans(&self) -> Vec<Plan> {
        let can_draft = |sequence: &&DraftCandidate<'_>| sequence.adaptive && sequence.max > 0;
        let all: Vec<bool> = self.sequences.iter().map(|sequence| can_draft(&sequence)).collect();
        let active: Vec<bool> = self
            .sequences
            .iter()
            .map(|sequence| can_draft(&sequence) && sequence.acceptance.is_active())
            .collect();
        let longest = self.sequences.iter().filter(can_draft).map(|sequence| sequence.max).max().unwrap_or(0);
        let mut plans = Vec::new();
        for len in 1..=longest.min(MAX_DRAFT_TOKENS) {
            if active != all && active.contains(&true) {
                plans.push(self.plan(active.clone(), len));
            }
            plans.push(self.plan(all.clone(), len));
        }
        plans
    }

    fn plan(&self, drafts: Vec<bool>, len: usize) -> Plan {
        let tokens = self.sequences.len() as f64;
        let mut plan = Plan {
            drafts,
            len,
            tokens,
            hopes: vec![0.0; self.sequences.len()],
            cost: 1.0,
            deviation: 0.0,
            num_samples: 0,
            age: 0,
        };
        let (mut num_asked, mut rows, mut is_head) = (0_usize, 0, false);
        let (mut num_found, mut none_found) = (0.0, 1.0);
        for (index, sequence) in self.sequences.iter().enumerate() {
            let len = plan.len_of(index, sequence);
            if len == 0 {
                continue;
            }
            let acceptance = sequence.acceptance;
            let found = self.methods.of(sequence.is_head).found;
            let gain = acceptance.expected(len);
            plan.tokens += gain * found;
            if acceptance.may_try() {
                let hoped: f64 = (1..=len as i32).map(|position| HOPED_RATE.powi(position)).sum();
                plan.hopes[index] = (hoped - gain).max(0.0) * found;
            }
            num_found += found;
            // A head takes the same time whatever is left of its draft.
            none_found *= if sequence.is_head { 0.0 } else { 1.0 - found };
            num_asked += 1;
            rows += len;
            is_head |= sequence.is_head;
        }
        let any_found: f64 = 1.0 - none_found;
        let num_drafting = ((num_found / any_found.max(1e-6)).round() as usize).clamp(1, num_asked.max(1));
        let mean_len = rows.div_ceil(num_asked.max(1));
        if let Some(shape) = Shape::new(self.sequences.len(), num_drafting, mean_len * num_drafting, is_head)
        {
            let estimate = self.costs.estimate(self.sequences.len(), shape);
            let cost = any_found * estimate.ratio;
            plan.cost = cost + none_found;
            plan.deviation = estimate.deviation * cost / plan.cost;
            (plan.num_samples, plan.age) = (estimate.num_samples, estimate.age);
        }
        plan
    }
}
