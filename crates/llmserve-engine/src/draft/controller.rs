//! How many tokens each sequence drafts in the next step.

use std::time::Duration;

use super::MAX_DRAFT_TOKENS;
use super::acceptance::{Acceptance, AcceptanceHistory};
use super::cost::{Estimate, Shape, StepCosts};

/// Drafting starts if it gives so many times the tokens per second of a step without.
const MIN_GAIN: f64 = 1.02;
/// Deviations by which the cost of the best plan is taken to be higher than measured: of many, one seems the best by chance.
const CAUTION: f64 = 0.5;
/// Deviations within which the best plan must be better than none, or the step without drafts is measured again.
const CHECKED_DEVIATIONS: f64 = 2.0;
/// A plan is tried if it may give so many times those of the best known one.
const MIN_PROBE_GAIN: f64 = 1.03;
/// Deviations by which a cost may well be lower.
const OPTIMISM: f64 = 1.3;
/// The uncertainty (standard deviation of the logarithm) up to which the cost of a step counts as known.
const KNOWN_DEVIATION: f64 = 0.12;
/// Measurements that a cost must have before it rules out a plan: one step may have been disturbed.
const MIN_SAMPLES: u32 = 2;
/// What probes may lose: steps per step, the most that is saved up, and at the start.
const PROBE_SHARE: f64 = 0.0075;
const MAX_CREDIT: f64 = 2.0;
const FIRST_CREDIT: f64 = 4.0;
/// A plan that seems so many times as good as no drafts is checked against a step without after this number of steps,
/// and again each time it has run twice as long, up to the second number.
const MUCH_GAIN: f64 = 1.25;
const FIRST_CHECK: u64 = 8;
const LAST_CHECK: u64 = 512;
/// The acceptance by which it is judged whether a sequence that does not draft should try.
const HOPED_RATE: f64 = 0.9;
/// Numbers of drafting sequences that are looked at, for each length.
const MAX_COUNTS: usize = 8;
/// Weight of the newest step in the share of asked drafters that had a draft.
const FOUND_WEIGHT: f64 = 0.05;
/// What a draft leaves of the older ones in the comparison of what was expected and accepted.
const FADING: f64 = 0.99;

/// A sequence that decodes in the next step.
#[derive(Debug)]
pub(crate) struct DraftCandidate<'a> {
    pub(crate) acceptance: &'a Acceptance,
    /// The longest draft there is room for. 0: the sequence does not draft.
    pub(crate) max: usize,
    pub(crate) adaptive: bool,
    pub(crate) is_head: bool,
}

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
    /// What probes may lose: seconds in units of the step at hand.
    credit: f64,
    /// The step that was planned last.
    planned: Planned,
}

#[derive(Debug)]
struct Method {
    history: AcceptanceHistory,
    /// Share of the asked sequences that had a draft.
    found: f64,
    /// Tokens that were expected to be accepted, and those that were, fading.
    expected: f64,
    accepted: f64,
    /// Expected of each draft of the step at hand (mean).
    expected_each: f64,
}

impl Method {
    fn new() -> Self {
        Self { history: AcceptanceHistory::new(), found: 1.0, expected: 10.0, accepted: 10.0, expected_each: 0.0 }
    }

    /// What expectations are to be multiplied by. They are too high on the whole, since the sequences that draft are
    /// chosen by them, and since those that draft much shape what new ones start from.
    fn correction(&self) -> f64 {
        (self.accepted / self.expected).clamp(0.5, 1.1)
    }

    /// Keeps what is expected of the sequences of this method. Returns how many are asked for a draft.
    fn expect(&mut self, sequences: &[DraftCandidate<'_>], lens: &[usize], is_head: bool) -> usize {
        let asked = sequences.iter().zip(lens).filter(|&(sequence, &len)| len > 0 && sequence.is_head == is_head);
        let expected: Vec<f64> = asked.map(|(sequence, &len)| sequence.acceptance.expected(len)).collect();
        self.expected_each = expected.iter().sum::<f64>() / expected.len().max(1) as f64;
        expected.len()
    }

    fn record(&mut self, drafted: usize, accepted: usize) {
        self.history.record(drafted, accepted);
        self.expected = self.expected * FADING + self.expected_each;
        self.accepted = self.accepted * FADING + accepted as f64;
    }
}

#[derive(Debug, Default)]
struct Planned {
    /// Sequences that were asked for a draft: heads and lookups.
    num_heads: usize,
    num_lookups: usize,
    probe: Option<Probe>,
}

/// A step that was planned for what it teaches.
#[derive(Debug, Clone, Copy)]
struct Probe {
    /// What it was to lose.
    charged: f64,
    /// Its expected tokens as a share of those of the best plan, and the best plan's cost.
    tokens: f64,
    best_log_cost: f64,
}

/// One way to draft in the next step, or not.
#[derive(Debug, Clone)]
struct Plan {
    /// The adaptive sequences that draft.
    members: Vec<usize>,
    len: usize,
    /// Expected tokens of the step.
    tokens: f64,
    /// Logarithm of what the step takes beside one without drafts, and its uncertainty (standard deviation).
    log_cost: f64,
    deviation: f64,
    /// What the step takes if it has drafts.
    estimate: Estimate,
}

impl Plan {
    /// Tokens per time.
    fn rate(&self) -> f64 {
        self.tokens / self.log_cost.exp()
    }

    fn cautious_rate(&self) -> f64 {
        self.rate() / (CAUTION * self.deviation).exp()
    }

    /// Whether a step by this plan tells something new: its cost beside others shows in turns, not in a row.
    fn may_teach(&self) -> bool {
        self.estimate.num_samples < MIN_SAMPLES || self.estimate.age >= FIRST_CHECK
    }

    fn is_known(&self) -> bool {
        let num_samples = self.estimate.num_samples;
        self.deviation <= KNOWN_DEVIATION && (num_samples == 0 || num_samples >= MIN_SAMPLES)
    }

    /// The time that is lost with this plan instead of the best, in steps of the best.
    fn loss(&self, best: &Plan) -> f64 {
        (self.log_cost - best.log_cost).exp() - self.tokens / best.tokens
    }
}

impl DraftController {
    pub(crate) fn new() -> Self {
        Self {
            costs: StepCosts::new(),
            heads: Method::new(),
            lookups: Method::new(),
            credit: FIRST_CREDIT,
            planned: Planned::default(),
        }
    }

    /// The acceptance of a new sequence: what this engine has seen, until it has records of its own.
    pub(crate) fn acceptance(&self, is_head: bool) -> Acceptance {
        self.method(is_head).history.start()
    }

    /// The draft length of each sequence; these are all that decode in the next step.
    pub(crate) fn choose(&mut self, sequences: &[DraftCandidate<'_>]) -> Vec<usize> {
        if self.credit < MAX_CREDIT {
            self.credit += PROBE_SHARE;
        }
        self.planned = Planned::default();
        let adaptive: Vec<usize> = (0..sequences.len())
            .filter(|&index| sequences[index].adaptive && sequences[index].max > 0)
            .collect();
        let plan = if adaptive.is_empty() {
            self.plan(sequences, &[], 0, None)
        } else {
            self.best_or_probe(sequences, &adaptive)
        };
        for &index in &adaptive {
            if !plan.members.contains(&index) {
                sequences[index].acceptance.count_step();
            }
        }
        let lens: Vec<usize> = (0..sequences.len()).map(|index| plan.len_of(sequences, index)).collect();
        self.planned.num_heads = self.heads.expect(sequences, &lens, true);
        self.planned.num_lookups = self.lookups.expect(sequences, &lens, false);
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
            num_drafting: step.num_drafting,
            draft_len: step.num_draft_rows.div_ceil(step.num_drafting.max(1)),
            is_head: num_heads > 0,
        };
        self.costs.record(shape, step.took.as_secs_f64());
        if let Some(probe) = probe {
            let lost = (self.costs.estimate(shape).log_ratio - probe.best_log_cost).exp() - probe.tokens;
            self.credit += probe.charged - lost.clamp(0.0, MAX_CREDIT);
        }
        let (asked, method) = match (num_heads, num_lookups) {
            (0, asked) => (asked, &mut self.lookups),
            (asked, 0) => (asked, &mut self.heads),
            (_, _) => return,
        };
        if asked > 0 {
            let found = step.num_drafting as f64 / asked as f64;
            method.found += FOUND_WEIGHT * (found.min(1.0) - method.found);
        }
    }

    /// Enters a draft of any sequence.
    pub(crate) fn record_acceptance(&mut self, is_head: bool, drafted: usize, accepted: usize) {
        let method = if is_head { &mut self.heads } else { &mut self.lookups };
        method.record(drafted, accepted);
    }

    fn method(&self, is_head: bool) -> &Method {
        if is_head { &self.heads } else { &self.lookups }
    }

    fn best_or_probe(&mut self, sequences: &[DraftCandidate<'_>], adaptive: &[usize]) -> Plan {
        let plans = self.plans(sequences, adaptive);
        let best = best_known(&plans);
        if best.members.is_empty() && best.estimate.num_samples < MIN_SAMPLES {
            // What a step takes without drafts comes first: all else is judged by it.
            return best.clone();
        }
        if self.is_check_due(sequences.len(), &plans[0], best) {
            self.credit -= plans[0].loss(best);
            return plans[0].clone();
        }
        let again = self.second_try(sequences, adaptive, best);
        let Some(probe) = again.or_else(|| self.cost_probe(sequences.len(), &plans, best)) else {
            return best.clone();
        };
        let charged = probe.loss(best).max(0.0);
        self.credit -= charged;
        self.planned.probe =
            Some(Probe { charged, tokens: probe.tokens / best.tokens, best_log_cost: best.log_cost });
        probe
    }

    /// The plans to compare. The first is that without drafts of adaptive sequences.
    fn plans(&self, sequences: &[DraftCandidate<'_>], adaptive: &[usize]) -> Vec<Plan> {
        let mut plans = vec![self.plan(sequences, &[], 0, None)];
        let longest = adaptive.iter().map(|&index| sequences[index].max).max().unwrap_or(0);
        for len in 1..=longest.min(MAX_DRAFT_TOKENS) {
            let mut ranked: Vec<(f64, usize)> =
                adaptive.iter().map(|&index| (self.gain(&sequences[index], len, None), index)).collect();
            ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            let ranked: Vec<usize> = ranked.into_iter().map(|(_, index)| index).collect();
            let mut last = 0;
            for part in 1..=MAX_COUNTS {
                let count = (ranked.len() * part).div_ceil(MAX_COUNTS);
                if count > last {
                    plans.push(self.plan(sequences, &ranked[..count], len, None));
                    last = count;
                }
            }
        }
        plans
    }

    /// Whether the step without drafts of adaptive sequences is to be measured again: the best plan may be no better, or
    /// it is new and seems much better.
    fn is_check_due(&self, num_decoding: usize, base: &Plan, best: &Plan) -> bool {
        if best.members.is_empty() || base.estimate.age < FIRST_CHECK {
            return false;
        }
        let doubt = (CHECKED_DEVIATIONS * self.deviation(num_decoding, base, best)).exp();
        let is_new = best.rate() > MUCH_GAIN * base.rate()
            && base.estimate.age >= u64::from(best.estimate.num_samples).min(LAST_CHECK);
        is_new || (best.rate() < base.rate() * doubt && base.loss(best) <= self.credit)
    }

    /// An uncertain plan that may be better than the best known one and whose loss the credit covers.
    fn cost_probe(&self, num_decoding: usize, plans: &[Plan], best: &Plan) -> Option<Plan> {
        let hope = |plan: &Plan| (OPTIMISM * self.deviation(num_decoding, plan, best)).exp();
        plans[1..]
            .iter()
            .filter(|plan| plan.loss(best) <= self.credit && plan.may_teach())
            .filter(|plan| plan.rate() * hope(plan) > best.rate() * MIN_PROBE_GAIN)
            .min_by(|a, b| a.loss(best).total_cmp(&b.loss(best)))
            .cloned()
    }

    /// Uncertainty of the ratio of what two plans cost.
    fn deviation(&self, num_decoding: usize, a: &Plan, b: &Plan) -> f64 {
        self.costs.variance_between(num_decoding, &a.estimate, &b.estimate).sqrt()
    }

    /// The best plan with those sequences added that have not drafted for a while, where that may pay and
    /// the credit covers its loss.
    fn second_try(&self, sequences: &[DraftCandidate<'_>], adaptive: &[usize], best: &Plan) -> Option<Plan> {
        let may_try = |index: &usize| !best.members.contains(index) && sequences[*index].acceptance.may_try();
        let joining: Vec<usize> = adaptive.iter().copied().filter(may_try).collect();
        if joining.is_empty() {
            return None;
        }
        // Where none drafts, all try at once: a step in which one of many drafts may cost as much.
        let members: Vec<usize> =
            if best.members.is_empty() { adaptive.to_vec() } else { [&best.members[..], &joining[..]].concat() };
        let longest = members.iter().map(|&index| sequences[index].max).max().unwrap_or(0).min(MAX_DRAFT_TOKENS);
        let wanted = best.rate() * MIN_PROBE_GAIN;
        let may_pay =
            (1..=longest).any(|len| self.plan(sequences, &members, len, Some(&joining)).rate() > wanted);
        if !may_pay {
            return None;
        }
        let lens = if best.len > 0 { best.len..=best.len } else { 1..=longest };
        let plan = lens
            .map(|len| self.plan(sequences, &members, len, None))
            .min_by(|a, b| a.loss(best).total_cmp(&b.loss(best)))?;
        let loss = plan.loss(best);
        let is_due = joining.iter().any(|&index| sequences[index].acceptance.is_due(loss));
        (is_due && loss <= self.credit).then_some(plan)
    }

    /// What is expected of a step in which these adaptive sequences draft. Those in `hoped` are taken to be predictable.
    fn plan(
        &self,
        sequences: &[DraftCandidate<'_>],
        members: &[usize],
        len: usize,
        hoped: Option<&[usize]>,
    ) -> Plan {
        let undrafted = self.costs.estimate(Shape::undrafted(sequences.len()));
        let mut plan = Plan {
            members: members.to_vec(),
            len,
            tokens: sequences.len() as f64,
            log_cost: 0.0,
            deviation: 0.0,
            estimate: undrafted,
        };
        let (mut num_asked, mut rows, mut is_head) = (0_usize, 0, false);
        let (mut num_found, mut none_found) = (0.0, 1.0);
        for (index, sequence) in sequences.iter().enumerate() {
            let len = plan.len_of(sequences, index);
            if len == 0 {
                continue;
            }
            let is_hoped = hoped.is_some_and(|hoped| hoped.contains(&index));
            plan.tokens += self.gain(sequence, len, is_hoped.then_some(HOPED_RATE));
            let found = self.method(sequence.is_head).found;
            num_found += found;
            none_found *= 1.0 - found;
            num_asked += 1;
            rows += len;
            is_head |= sequence.is_head;
        }
        if num_asked == 0 {
            return plan;
        }
        let any_found: f64 = 1.0 - none_found;
        let drafted = self.costs.estimate(Shape {
            num_decoding: sequences.len(),
            num_drafting: ((num_found / any_found.max(1e-6)).round() as usize).clamp(1, num_asked),
            draft_len: rows.div_ceil(num_asked),
            is_head,
        });
        let cost = any_found * drafted.log_ratio.exp();
        plan.log_cost = (cost + none_found).ln();
        plan.deviation = drafted.variance.sqrt() * cost / (cost + none_found);
        plan.estimate = drafted;
        plan
    }

    /// Tokens that a draft of a sequence is expected to add to a step.
    fn gain(&self, sequence: &DraftCandidate<'_>, len: usize, rate: Option<f64>) -> f64 {
        let len = len.min(sequence.max);
        let accepted = match rate {
            Some(rate) => (1..=len as i32).map(|position| rate.powi(position)).sum(),
            None => sequence.acceptance.expected(len),
        };
        let method = self.method(sequence.is_head);
        accepted * method.found * if rate.is_some() { 1.0 } else { method.correction() }
    }
}

impl Plan {
    fn len_of(&self, sequences: &[DraftCandidate<'_>], index: usize) -> usize {
        let sequence = &sequences[index];
        match sequence.adaptive {
            false => sequence.max,
            true if self.members.contains(&index) => self.len.min(sequence.max),
            true => 0,
        }
    }
}

/// The plan with the highest rate of those whose cost is known, if it is worth it.
fn best_known(plans: &[Plan]) -> &Plan {
    let base = &plans[0];
    plans[1..]
        .iter()
        .filter(|plan| plan.is_known())
        .max_by(|a, b| a.cautious_rate().total_cmp(&b.cautious_rate()))
        .filter(|plan| plan.cautious_rate() > base.rate() * MIN_GAIN)
        .unwrap_or(base)
}
impl DraftController {
    pub(crate) fn is_probe(&self) -> bool { self.planned.probe.is_some() }
}
impl DraftController {
    pub(crate) fn describe(&self, c: usize) -> String {
        let mut t = format!("credit {:.2} corr {:.2} found {:.2} noise {:.4} ", self.credit, self.heads.correction(), self.heads.found, self.costs.noise());
        for m in 1..=c { for k in 1..=3 {
            let e = self.costs.estimate(Shape{num_decoding:c,num_drafting:m,draft_len:k,is_head:true});
            if e.num_samples > 0 { t += &format!("| {m}x{k} {:.2}+-{:.2} n{} ", e.log_ratio.exp(), e.variance.sqrt(), e.num_samples); }
        }}
        t
    }
}
