//! How many tokens each sequence drafts in the next step.

use std::time::Duration;

use super::acceptance::Acceptance;
use super::candidate::DraftCandidate;
use super::cost::{Shape, StepCosts};
use super::method::Method;
use super::plan::{MIN_AGE, MIN_SAMPLES, Outlook, Plan};

/// Drafting starts if it gives so many times the tokens per second of a step without.
const MIN_GAIN: f64 = 1.02;
/// A plan is tried if it may give so many times those of the best known one, its cost being so many deviations lower.
const MIN_PROBE_GAIN: f64 = 1.02;
const OPTIMISM: f64 = 1.8;
/// What probes may lose: steps per step, the most that is saved up, and at the start.
const PROBE_SHARE: f64 = 0.006;
const MAX_CREDIT: f64 = 2.0;
const FIRST_CREDIT: f64 = 4.0;
/// The best plan must be better than no drafts by so many deviations, or the step without is measured again.
const CHECKED_DEVIATIONS: f64 = 2.0;
/// Besides it is measured again each time the best plan has run twice as long, up to every so many steps: its cost may
/// have been mistaken.
const LAST_CHECK: u64 = 128;

/// What became of a step without prompt chunks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DraftStep {
    pub(crate) num_decoding: usize,
    pub(crate) num_drafting: usize,
    /// Tokens of the longest draft. 0: none.
    pub(crate) draft_len: usize,
    pub(crate) num_draft_rows: usize,
    /// The draft head and the decode together.
    pub(crate) took: Duration,
}

/// Chooses draft lengths such that drafting pays, by what steps took and what was accepted.
///
/// All adaptive sequences that draft in a step get the same length: sequences of unequal row counts may be
/// computed in several passes, each of which reads the weights again. The plan with the most expected tokens per
/// second is taken. Plans whose cost is uncertain, and sequences that do not draft, are tried now and
/// then; what that may lose is bounded by a credit. Two controllers that are told the same choose the same.
#[derive(Debug)]
pub(crate) struct DraftController {
    costs: StepCosts,
    heads: Method,
    lookups: Method,
    /// What probes may lose, in steps.
    credit: f64,
    /// Steps since one was planned without drafts of adaptive sequences.
    num_drafted: u64,
    /// The step that was planned last.
    planned: Planned,
}

#[derive(Debug, Default)]
struct Planned {
    /// Sequences that were asked for a draft.
    num_heads: usize,
    num_lookups: usize,
    probe: Option<Probe>,
}

/// A step that was planned for what it teaches.
#[derive(Debug, Clone, Copy)]
struct Probe {
    /// What it was to lose.
    charged: f64,
    /// Of the best plan.
    best_tokens: f64,
    best_log_cost: f64,
}

impl DraftController {
    pub(crate) fn new() -> Self {
        Self {
            costs: StepCosts::new(),
            heads: Method::new(),
            lookups: Method::new(),
            credit: FIRST_CREDIT,
            num_drafted: 0,
            planned: Planned::default(),
        }
    }

    /// The acceptance of a new sequence: what this engine has seen, until it has records of its own.
    pub(crate) fn acceptance(&self, is_head: bool) -> Acceptance {
        let method = if is_head { &self.heads } else { &self.lookups };
        method.history.start()
    }

    /// The draft length of each sequence; these are all that decode in the next step.
    pub(crate) fn choose(&mut self, sequences: &[DraftCandidate<'_>]) -> Vec<usize> {
        if self.credit < MAX_CREDIT {
            self.credit += PROBE_SHARE;
        }
        self.planned = Planned::default();
        let plan = self.plan(sequences);
        self.num_drafted = if plan.len > 0 { self.num_drafted + 1 } else { 0 };
        let lens: Vec<usize> =
            sequences.iter().enumerate().map(|(index, sequence)| plan.len_of(index, sequence)).collect();
        for (sequence, &len) in sequences.iter().zip(&lens) {
            if sequence.max > 0 && len == 0 {
                sequence.acceptance.count_step();
            }
        }
        let asked = |is_head| {
            let asked = sequences.iter().zip(lens.iter().copied());
            asked.filter(move |&(sequence, len)| len > 0 && sequence.is_head == is_head)
        };
        self.planned.num_heads = self.heads.expect(asked(true));
        self.planned.num_lookups = self.lookups.expect(asked(false));
        lens
    }

    /// Enters a step without prompt chunks that was planned by the last call of [`choose`](Self::choose).
    pub(crate) fn record_step(&mut self, step: &DraftStep) {
        let Planned { num_heads, num_lookups, probe } = std::mem::take(&mut self.planned);
        if step.num_decoding == 0 {
            return;
        }
        let shape = Shape {
            num_decoding: step.num_decoding,
            num_drafting: if step.draft_len > 0 { step.num_drafting } else { 0 },
            draft_len: step.num_draft_rows.div_ceil(step.num_drafting.max(1)),
            is_head: num_heads > 0,
        };
        if num_heads == 0 || shape.num_drafting > 0 {
            // Else the head ran for nothing, which no other step is like.
            self.costs.record(shape, step.took.as_secs_f64());
        }
        let (asked, method) = match (num_heads, num_lookups) {
            (0, asked) => (asked, &mut self.lookups),
            (asked, 0) => (asked, &mut self.heads),
            (_, _) => return,
        };
        method.record_found(asked, step.num_drafting);
        if let Some(probe) = probe {
            // Charged is what it lost by what is known now.
            let time = (self.costs.estimate(shape).log_ratio - probe.best_log_cost).exp();
            let tokens = step.num_decoding as f64 + step.num_drafting as f64 * method.expected_each();
            let lost = time - tokens / probe.best_tokens;
            self.credit += probe.charged - lost.clamp(0.0, MAX_CREDIT);
        }
    }

    /// Enters a draft of any sequence.
    pub(crate) fn record_acceptance(&mut self, is_head: bool, drafted: usize, accepted: usize) {
        let method = if is_head { &mut self.heads } else { &mut self.lookups };
        method.record(drafted, accepted);
    }

    /// The best plan, or one that is to show what is not known.
    fn plan(&mut self, sequences: &[DraftCandidate<'_>]) -> Plan {
        let outlook = Outlook { sequences, costs: &self.costs, heads: &self.heads, lookups: &self.lookups };
        let base = outlook.base();
        let plans = outlook.plans();
        let best = best_known(&base, &plans);
        if plans.is_empty() || (best.len == 0 && base.estimate.num_samples < MIN_SAMPLES) {
            // What a step takes without drafts comes first: all else is judged by it.
            return base;
        }
        if self.num_drafted >= MIN_AGE && is_check_due(&outlook, &base, best, self.num_drafted) {
            self.credit -= base.loss(best).max(0.0);
            return base;
        }
        let probe = second_try(&outlook, best)
            .filter(|plan| plan.loss(best) <= self.credit)
            .or_else(|| cost_probe(&outlook, &plans, best, self.credit));
        let Some(probe) = probe else {
            return best.clone();
        };
        let charged = probe.loss(best).max(0.0);
        self.credit -= charged;
        self.planned.probe = Some(Probe { charged, best_tokens: best.tokens, best_log_cost: best.log_cost });
        probe
    }
}

/// The plan with the highest rate of those whose cost is known, if it is worth it.
fn best_known<'a>(base: &'a Plan, plans: &'a [Plan]) -> &'a Plan {
    plans
        .iter()
        .filter(|plan| plan.is_known())
        .max_by(|a, b| a.cautious_rate().total_cmp(&b.cautious_rate()))
        .filter(|plan| plan.cautious_rate() > base.rate() * MIN_GAIN)
        .unwrap_or(base)
}

/// Whether the step without drafts of adaptive sequences is to be measured again after so many with: the best plan may
/// be no better, or it is new.
fn is_check_due(outlook: &Outlook<'_>, base: &Plan, best: &Plan, num_drafted: u64) -> bool {
    let doubt = (CHECKED_DEVIATIONS * outlook.deviation(base, best)).exp();
    best.len == 0
        || best.rate() < base.rate() * doubt
        || num_drafted >= u64::from(best.estimate.num_samples).min(LAST_CHECK)
}

/// The uncertain plan with the least loss of those that may be better than the best known one.
fn cost_probe(outlook: &Outlook<'_>, plans: &[Plan], best: &Plan, credit: f64) -> Option<Plan> {
    let hope = |plan: &Plan| (OPTIMISM * outlook.deviation(plan, best)).exp();
    plans
        .iter()
        .filter(|plan| plan.loss(best) <= credit && plan.may_teach())
        .filter(|plan| plan.rate() * hope(plan) > best.rate() * MIN_PROBE_GAIN)
        .min_by(|a, b| a.loss(best).total_cmp(&b.loss(best)))
        .cloned()
}

/// The best plan with those sequences added that have not drafted for a while, where that may pay.
fn second_try(outlook: &Outlook<'_>, best: &Plan) -> Option<Plan> {
    let indices = 0..outlook.sequences.len();
    let joining: Vec<bool> = indices
        .clone()
        .map(|index| {
            let may_try = outlook.sequences[index].acceptance.may_try();
            outlook.is_adaptive(index) && !best.drafts[index] && may_try
        })
        .collect();
    if !joining.contains(&true) {
        return None;
    }
    // Where none drafts, all try at once: a step in which one of many drafts may cost as much.
    let drafts: Vec<bool> = indices
        .clone()
        .map(|index| best.drafts[index] || joining[index] || (best.len == 0 && outlook.is_adaptive(index)))
        .collect();
    let plans: Vec<Plan> =
        (1..=outlook.longest(&drafts)).map(|len| outlook.plan(drafts.clone(), len)).collect();
    let wanted = best.rate() * MIN_PROBE_GAIN;
    if !plans.iter().any(|plan| outlook.hoped_rate(plan, &joining) > wanted) {
        return None;
    }
    let plan = plans
        .into_iter()
        .filter(|plan| best.len == 0 || plan.len == best.len)
        .min_by(|a, b| a.loss(best).total_cmp(&b.loss(best)))?;
    let loss = plan.loss(best);
    let mut joining = indices.filter(|&index| joining[index]);
    joining.any(|index| outlook.sequences[index].acceptance.is_due(loss)).then_some(plan)
}
