//! What the next step computes: a plan from plain numbers. Knows neither llama.cpp nor text.

mod budget;

use std::time::Duration;

use crate::config::SchedulerConfig;

use budget::StepBudget;

/// The most rows of a sequence that generates, drafts not counted: a long run of forced tokens is computed
/// in the budget of prompts.
const MAX_DECODE_ROWS: usize = 16;

/// With more sequences than this, each gets one row a step where batches are split: rows that one
/// sequence has beyond the others are computed apart, dearer than in a later step with all.
const MAX_UNEQUAL: usize = 3;

/// A running sequence as the scheduler sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// The caller's index of the sequence.
    pub(crate) index: usize,
    /// Tokens without cells.
    pub(crate) num_pending: usize,
    /// Whether it has begun to generate: a few pending tokens are then decode rows (the drawn token
    /// and those that its constraint forced), many a prefill after preemption.
    pub(crate) is_generating: bool,
    /// Drafted tokens that follow a decode row.
    pub(crate) num_drafted: usize,
    /// The most tokens that one chunk of its prompt may have.
    pub(crate) max_chunk: usize,
    /// Order of arrival.
    pub(crate) arrival: u64,
}

impl Candidate {
    fn is_decode(&self) -> bool {
        is_decode(self.num_pending, self.is_generating)
    }
}

/// Whether a sequence with so many pending tokens gets decode rows, and is no prompt: its next token is
/// all that is missing, or it generates and a few were forced behind that.
pub(crate) fn is_decode(num_pending: usize, is_generating: bool) -> bool {
    num_pending == 1 || (is_generating && num_pending <= MAX_DECODE_ROWS)
}

/// The part of a step that one sequence gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    /// The caller's index of the sequence.
    pub(crate) index: usize,
    /// Pending tokens to compute.
    pub(crate) num_tokens: usize,
    /// Drafted tokens to verify behind them.
    pub(crate) num_drafted: usize,
}

/// One step: decode rows first, then prompt chunks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Sequences that generate and sit this step out for its prompt chunks; the next step is theirs.
    pub(crate) num_resting: usize,
    /// Sequences that generate.
    pub(crate) decode: Vec<Share>,
    /// Sequences whose prompt is computed.
    pub(crate) prefill: Vec<Share>,
}

impl Plan {
    pub(crate) fn is_empty(&self) -> bool {
        self.decode.is_empty() && self.prefill.is_empty()
    }

    pub(crate) fn shares(&self) -> impl Iterator<Item = &Share> {
        self.decode.iter().chain(&self.prefill)
    }

    pub(crate) fn num_decode_rows(&self) -> usize {
        self.decode.iter().map(|share| share.num_tokens + share.num_drafted).sum()
    }

    pub(crate) fn num_prefill_rows(&self) -> usize {
        self.prefill.iter().map(|share| share.num_tokens).sum()
    }
}

/// Plans steps, and measures what they take.
#[derive(Debug)]
pub(crate) struct Scheduler {
    budget: StepBudget,
    /// Whether streams and prompts take turns instead of sharing a step.
    takes_turns: bool,
    is_prompts_turn: bool,
    /// What moving cells took since the last step: it comes off the next one.
    moved: Duration,
}

impl Scheduler {
    /// `takes_turns` for a context that computes the parts of a mixed batch one after the other
    /// anyway: apart, the rows of the streams do not scan as far as the prompt is long.
    pub(crate) fn new(config: &SchedulerConfig, takes_turns: bool) -> Self {
        Self { budget: StepBudget::new(config), takes_turns, is_prompts_turn: false, moved: Duration::ZERO }
    }

    /// Seconds of a prompt token, as measured.
    pub(crate) fn seconds_per_prompt_token(&self) -> Option<f64> {
        self.budget.seconds_per_prompt_token()
    }

    /// Seconds of the shortest step that only decodes, as measured.
    pub(crate) fn seconds_per_step(&self) -> Option<f64> {
        self.budget.seconds_per_step()
    }

    /// Takes the time that moving cells took off the next step.
    pub(crate) fn charge(&mut self, moved: Duration) {
        self.moved += moved;
    }

    /// Plans a step of at most `max_rows` rows; prompt chunks get what the budget allows.
    ///
    /// Every sequence that generates has its row (drafts are dropped first where rows are short;
    /// beyond `max_rows` sequences take turns by arrival). Of the prompts, the oldest gets at least
    /// half of the budget, so that it always moves, and short ones need not wait for a long one: the
    /// other half goes to the shortest.
    pub(crate) fn plan(&mut self, candidates: &[Candidate], max_rows: usize) -> Plan {
        let num_decoding = candidates.iter().filter(|candidate| candidate.is_decode()).count();
        let is_equal = self.takes_turns && num_decoding > MAX_UNEQUAL;
        let max_each = if is_equal { 1 } else { MAX_DECODE_ROWS };
        let mut plan = Plan { decode: plan_decode(candidates, max_rows, max_each), ..Plan::default() };
        let rows_left = if self.takes_turns { max_rows } else { max_rows - plan.num_decode_rows() };
        let tokens =
            self.budget.prefill_tokens(plan.decode.len(), std::mem::take(&mut self.moved)).min(rows_left);
        plan.prefill = plan_prefill(candidates, tokens);
        if self.takes_turns {
            self.take_turns(&mut plan);
        }
        plan
    }

    fn take_turns(&mut self, plan: &mut Plan) {
        if plan.decode.is_empty() || plan.prefill.is_empty() {
            self.is_prompts_turn = !plan.decode.is_empty();
        } else if self.is_prompts_turn {
            plan.num_resting = plan.decode.len();
            plan.decode.clear();
            self.is_prompts_turn = false;
        } else {
            plan.prefill.clear();
            self.is_prompts_turn = true;
        }
    }

    /// Enters what the planned step took.
    pub(crate) fn record(&mut self, plan: &Plan, took: Duration) {
        let tokens = plan.num_prefill_rows();
        if plan.num_resting > 0 {
            self.budget.record_chunk_beside_streams(tokens, took);
        } else {
            self.budget.record(plan.decode.len(), tokens, took);
        }
    }
}

fn plan_decode(candidates: &[Candidate], max_rows: usize, max_each: usize) -> Vec<Share> {
    let mut spare = max_rows;
    let mut shares = Vec::new();
    let mut num_drafted = Vec::new();
    for candidate in candidates.iter().filter(|candidate| candidate.is_decode()) {
        let num_tokens = candidate.num_pending.min(max_each).min(spare);
        if num_tokens == 0 {
            break;
        }
        spare -= num_tokens;
        shares.push(Share { index: candidate.index, num_tokens, num_drafted: 0 });
        // A draft goes on from the last pending token.
        num_drafted.push(if num_tokens == candidate.num_pending { candidate.num_drafted } else { 0 });
    }
    for (share, wanted) in shares.iter_mut().zip(num_drafted) {
        share.num_drafted = wanted.min(spare);
        spare -= share.num_drafted;
    }
    shares
}

fn plan_prefill(candidates: &[Candidate], budget: usize) -> Vec<Share> {
    let mut prompts: Vec<&Candidate> =
        candidates.iter().filter(|c| !c.is_decode() && c.num_pending > 0).collect();
    prompts.sort_by_key(|candidate| candidate.arrival);
    let Some((oldest, others)) = prompts.split_first() else {
        return Vec::new();
    };
    let mut others = others.to_vec();
    others.sort_by_key(|candidate| (candidate.num_pending, candidate.arrival));
    let wanted = |candidate: &Candidate| candidate.num_pending.min(candidate.max_chunk.max(1));

    let mut left = budget;
    let reserved = wanted(oldest).min(budget - budget / 2);
    left -= reserved;
    let mut shares = Vec::new();
    for candidate in others {
        let num_tokens = wanted(candidate).min(left);
        if num_tokens == 0 {
            break;
        }
        left -= num_tokens;
        shares.push(share(candidate, num_tokens));
    }
    let num_tokens = wanted(oldest).min(reserved + left);
    if num_tokens > 0 {
        shares.insert(0, share(oldest, num_tokens));
    }
    shares
}

fn share(candidate: &Candidate, num_tokens: usize) -> Share {
    Share { index: candidate.index, num_tokens, num_drafted: 0 }
}

#[cfg(test)]
mod tests;
