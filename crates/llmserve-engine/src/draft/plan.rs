//! The ways to draft in the next step, and what to expect of them.

use super::MAX_DRAFT_TOKENS;
use super::acceptance::{Expected, History};
use super::candidate::DraftCandidate;
use super::cost::{Shape, StepCosts};

/// Sequences whose first token is at least this part as likely to be accepted as the likeliest may draft alone.
const LIKELY_SHARE: f64 = 0.5;

/// One way to draft, or not to draft, in the next step.
#[derive(Debug)]
pub(super) struct Plan {
    /// The draft length of each sequence.
    pub(super) lens: Vec<usize>,
    /// Expected tokens of the step.
    tokens: f64,
    /// The step's time relative to one without drafts.
    cost: f64,
    is_measured: bool,
}

impl Plan {
    /// Tokens per time.
    fn rate(&self) -> f64 {
        self.tokens / self.cost
    }

    pub(super) fn drafts_nothing(&self) -> bool {
        self.lens.iter().all(|&len| len == 0)
    }

    /// The time that is lost with this plan instead of the best, in steps of the best.
    pub(super) fn loss(&self, best: &Self) -> f64 {
        (self.cost / best.cost - self.tokens / best.tokens).max(0.0)
    }
}

/// How drafts of both kinds have fared.
#[derive(Debug)]
pub(super) struct Histories {
    heads: History,
    lookups: History,
}

impl Histories {
    pub(super) fn new() -> Self {
        Self { heads: History::new(), lookups: History::new() }
    }

    pub(super) fn of(&self, is_head: bool) -> &History {
        if is_head { &self.heads } else { &self.lookups }
    }

    pub(super) fn of_mut(&mut self, is_head: bool) -> &mut History {
        if is_head { &mut self.heads } else { &mut self.lookups }
    }
}

/// The next step, and what is known of it or hoped for.
#[derive(Debug)]
pub(super) struct Outlook<'a> {
    sequences: &'a [DraftCandidate<'a>],
    expected: Vec<Expected>,
    costs: &'a StepCosts,
    histories: &'a Histories,
    hopeful: bool,
}

impl<'a> Outlook<'a> {
    /// `hopeful`: what has not been tried for long may be better than known.
    pub(super) fn new(
        sequences: &'a [DraftCandidate<'a>],
        costs: &'a StepCosts,
        histories: &'a Histories,
        hopeful: bool,
    ) -> Self {
        let expected = |sequence: &DraftCandidate<'_>| {
            if hopeful { sequence.acceptance.hoped() } else { sequence.acceptance.expected() }
        };
        let expected = sequences.iter().map(expected).collect();
        Self { sequences, expected, costs, histories, hopeful }
    }

    /// No drafts of adaptive sequences.
    pub(super) fn base(&self) -> Plan {
        self.with_drafts(&[], 0)
    }

    /// The plan with the most tokens per time: for each length, drafts of all, or of the likely sequences only.
    pub(super) fn best(&self) -> Plan {
        let can_draft = |sequence: &DraftCandidate<'_>| sequence.adaptive && sequence.max > 0;
        let all: Vec<usize> =
            (0..self.sequences.len()).filter(|&index| can_draft(&self.sequences[index])).collect();
        let rate = |index: usize| self.expected[index][1];
        let highest = all.iter().map(|&index| rate(index)).fold(0.0, f64::max);
        let likely: Vec<usize> =
            all.iter().copied().filter(|&index| rate(index) >= highest * LIKELY_SHARE).collect();
        let longest =
            all.iter().map(|&index| self.sequences[index].max).max().unwrap_or(0).min(MAX_DRAFT_TOKENS);
        let base = self.base();
        (1..=longest)
            .flat_map(|len| [self.with_drafts(&likely, len), self.with_drafts(&all, len)])
            .filter(|plan| plan.rate() > base.rate() && (self.hopeful || plan.is_measured))
            .max_by(|a, b| a.rate().total_cmp(&b.rate()))
            .unwrap_or(base)
    }

    fn with_drafts(&self, drafting: &[usize], len: usize) -> Plan {
        let fixed = |sequence: &DraftCandidate<'_>| if sequence.adaptive { 0 } else { sequence.max };
        let mut lens: Vec<usize> = self.sequences.iter().map(fixed).collect();
        for &index in drafting {
            lens[index] = len.min(self.sequences[index].max);
        }
        self.plan(lens)
    }

    /// What to expect of these draft lengths.
    pub(super) fn plan(&self, lens: Vec<usize>) -> Plan {
        let num_decoding = self.sequences.len();
        let mut tokens = num_decoding as f64;
        let (mut num_asked, mut rows, mut is_head) = (0_usize, 0, false);
        let (mut num_found, mut none_found) = (0.0, 1.0);
        for (index, sequence) in self.sequences.iter().enumerate().filter(|&(index, _)| lens[index] > 0) {
            let found = self.histories.of(sequence.is_head).found();
            tokens += found * self.expected[index][lens[index].min(MAX_DRAFT_TOKENS)];
            num_found += found;
            // A head takes the same time whatever is left of its draft.
            none_found *= if sequence.is_head { 0.0 } else { 1.0 - found };
            num_asked += 1;
            rows += lens[index];
            is_head |= sequence.is_head;
        }
        let any_found: f64 = 1.0 - none_found;
        let num_drafting = ((num_found / any_found.max(1e-6)).round() as usize).clamp(1, num_asked.max(1));
        let mean_len = rows.div_ceil(num_asked.max(1));
        let shape = Shape::new(num_decoding, num_drafting, mean_len * num_drafting, is_head);
        let ratio = shape.map_or(1.0, |shape| self.costs.ratio(num_decoding, shape, self.hopeful));
        Plan {
            lens,
            tokens,
            cost: any_found * ratio + none_found,
            is_measured: shape.is_none_or(|shape| self.costs.is_measured(num_decoding, shape)),
        }
    }
}
