//! What is to be expected of the ways to draft in the next step.

use super::MAX_DRAFT_TOKENS;
use super::candidate::DraftCandidate;
use super::cost::{Estimate, Shape, StepCosts};
use super::method::Method;

/// Deviations by which the cost of a plan is taken to be higher than measured: of many, one seems the best by chance.
const CAUTION: f64 = 0.5;
/// The uncertainty (standard deviation of the logarithm) up to which the cost of a step counts as known.
const KNOWN_DEVIATION: f64 = 0.12;
/// Measurements that a cost must have before it rules out a plan: one step may have been disturbed.
pub(super) const MIN_SAMPLES: u32 = 2;
/// Steps after which the cost of a plan is worth another measurement.
pub(super) const MIN_AGE: u64 = 8;
/// The acceptance by which it is judged whether a sequence that does not draft should try.
const HOPED_RATE: f64 = 0.9;
/// Numbers of drafting sequences that are looked at, for each length.
const MAX_COUNTS: usize = 8;

/// One way to draft in the next step, or not.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// Which of the adaptive sequences draft.
    pub(super) drafts: Vec<bool>,
    /// Tokens of their drafts; 0: none drafts.
    pub(super) len: usize,
    /// Expected tokens of the step.
    pub(super) tokens: f64,
    /// Logarithm of what the step takes beside one without drafts, and its uncertainty (standard deviation).
    pub(super) log_cost: f64,
    pub(super) deviation: f64,
    /// The same if all that is asked for is found.
    pub(super) estimate: Estimate,
}

impl Plan {
    /// Tokens per time.
    pub(super) fn rate(&self) -> f64 {
        self.tokens / self.log_cost.exp()
    }

    pub(super) fn cautious_rate(&self) -> f64 {
        self.rate() / (CAUTION * self.deviation).exp()
    }

    pub(super) fn is_known(&self) -> bool {
        let num_samples = self.estimate.num_samples;
        self.deviation <= KNOWN_DEVIATION && (num_samples == 0 || num_samples >= MIN_SAMPLES)
    }

    /// Whether a step by this plan tells something new: its cost beside others shows in turns, not in a row.
    pub(super) fn may_teach(&self) -> bool {
        self.estimate.num_samples < MIN_SAMPLES || self.estimate.age >= MIN_AGE
    }

    /// The time that is lost with this plan instead of the best, in steps of the best.
    pub(super) fn loss(&self, best: &Self) -> f64 {
        (self.log_cost - best.log_cost).exp() - self.tokens / best.tokens
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

/// The next step and what is known for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outlook<'a> {
    pub(super) sequences: &'a [DraftCandidate<'a>],
    pub(super) costs: &'a StepCosts,
    pub(super) heads: &'a Method,
    pub(super) lookups: &'a Method,
}

impl Outlook<'_> {
    pub(super) fn is_adaptive(&self, index: usize) -> bool {
        let sequence = &self.sequences[index];
        sequence.adaptive && sequence.max > 0
    }

    /// The longest draft of these sequences.
    pub(super) fn longest(&self, drafts: &[bool]) -> usize {
        let lens = self
            .sequences
            .iter()
            .zip(drafts)
            .map(|(sequence, &drafts)| if drafts { sequence.max } else { 0 });
        lens.max().unwrap_or(0).min(MAX_DRAFT_TOKENS)
    }

    /// The plan without drafts of adaptive sequences.
    pub(super) fn base(&self) -> Plan {
        self.plan(vec![false; self.sequences.len()], 0)
    }

    /// The other plans to compare: for each length, drafts of those that promise most.
    pub(super) fn plans(&self) -> Vec<Plan> {
        let adaptive: Vec<usize> =
            (0..self.sequences.len()).filter(|&index| self.is_adaptive(index)).collect();
        let longest = adaptive.iter().map(|&index| self.sequences[index].max).max().unwrap_or(0);
        let mut plans = Vec::new();
        for len in 1..=longest.min(MAX_DRAFT_TOKENS) {
            let mut ranked: Vec<(f64, usize)> =
                adaptive.iter().map(|&index| (self.gain(&self.sequences[index], len), index)).collect();
            ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            let mut counts: Vec<usize> =
                (1..=MAX_COUNTS).map(|part| (ranked.len() * part).div_ceil(MAX_COUNTS)).collect();
            counts.dedup();
            for count in counts {
                let mut drafts = vec![false; self.sequences.len()];
                for &(_, index) in &ranked[..count] {
                    drafts[index] = true;
                }
                plans.push(self.plan(drafts, len));
            }
        }
        plans
    }

    /// What is expected of a step in which these adaptive sequences draft.
    pub(super) fn plan(&self, drafts: Vec<bool>, len: usize) -> Plan {
        let estimate = self.costs.estimate(Shape::undrafted(self.sequences.len()));
        let tokens = self.sequences.len() as f64;
        let mut plan = Plan { drafts, len, tokens, log_cost: 0.0, deviation: 0.0, estimate };
        let (mut num_asked, mut rows, mut is_head) = (0_usize, 0, false);
        let (mut num_found, mut none_found) = (0.0, 1.0);
        for (index, sequence) in self.sequences.iter().enumerate() {
            let len = plan.len_of(index, sequence);
            if len == 0 {
                continue;
            }
            plan.tokens += self.gain(sequence, len);
            let found = self.method(sequence).found;
            num_found += found;
            // A head takes its time whatever is left of its draft.
            none_found *= if sequence.is_head { 0.0 } else { 1.0 - found };
            num_asked += 1;
            rows += len;
            is_head |= sequence.is_head;
        }
        if num_asked == 0 {
            return plan;
        }
        let any_found: f64 = 1.0 - none_found;
        let num_drafting = (num_found / any_found.max(1e-6)).round() as usize;
        plan.estimate = self.costs.estimate(Shape {
            num_decoding: self.sequences.len(),
            num_drafting: num_drafting.clamp(1, num_asked),
            draft_len: rows.div_ceil(num_asked),
            is_head,
        });
        let cost = any_found * plan.estimate.log_ratio.exp();
        plan.log_cost = (cost + none_found).ln();
        plan.deviation = plan.estimate.variance.sqrt() * cost / (cost + none_found);
        plan
    }

    /// Tokens per time of a plan if these sequences turned out to be predictable.
    pub(super) fn hoped_rate(&self, plan: &Plan, hopeful: &[bool]) -> f64 {
        let hoped = |(index, sequence): (usize, &DraftCandidate<'_>)| {
            let len = plan.len_of(index, sequence);
            let accepted: f64 = (1..=len as i32).map(|position| HOPED_RATE.powi(position)).sum();
            accepted * self.method(sequence).found - self.gain(sequence, len)
        };
        let sequences = self.sequences.iter().enumerate().filter(|&(index, _)| hopeful[index]);
        (plan.tokens + sequences.map(hoped).sum::<f64>()) / plan.log_cost.exp()
    }

    /// Uncertainty of the ratio of what two plans cost.
    pub(super) fn deviation(&self, a: &Plan, b: &Plan) -> f64 {
        self.costs.variance_between(self.sequences.len(), &a.estimate, &b.estimate).sqrt()
    }

    /// Tokens that a draft of a sequence is expected to add to a step.
    fn gain(&self, sequence: &DraftCandidate<'_>, len: usize) -> f64 {
        let method = self.method(sequence);
        sequence.acceptance.expected(len.min(sequence.max)) * method.found * method.correction()
    }

    fn method(&self, sequence: &DraftCandidate<'_>) -> &Method {
        if sequence.is_head { self.heads } else { self.lookups }
    }
}
