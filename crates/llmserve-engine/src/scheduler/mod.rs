//! Plans the next step from plain numbers, without any knowledge of llama.cpp or text.

mod budget;
mod clock;
mod prefill;

use std::time::Duration;

use crate::config::SchedulerConfig;

use budget::StepBudget;
use prefill::plan_prefill;

/// Maximum number of rows of a sequence that generates, drafts not counted: a long run of forced tokens is computed
/// in the budget of prompts.
const MAX_DECODE_ROWS: usize = 16;

/// With more sequences than this, each gets one row a step where batches are split: rows that one
/// sequence has beyond the others are computed separately, at a higher cost than in a later step with all.
const MAX_UNEQUAL: usize = 3;

/// Streams of at most this many tokens have hardly begun: nobody reads them yet, and they wait for short prompts,
/// with which they usually came. A burst's prompts take some seconds, in which its first streams get a token now
/// and then.
const JUST_BEGUN: usize = 32;
/// A prompt is short if at most this many tokens, cached ones not counted, are to be computed. A question is;
/// one with documents is not, nor is what remains of it.
const SHORT_PROMPT: usize = 256;

/// A running sequence as the scheduler sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// The caller's index of the sequence.
    pub(crate) index: usize,
    /// Number of tokens with cells: the position of the next row.
    pub(crate) position: usize,
    /// Number of tokens without cells.
    pub(crate) num_pending: usize,
    /// Number of the prompt's tokens that were not cached.
    pub(crate) num_new: usize,
    /// Tokens that it has generated. From the first one on a few pending tokens are decode rows (the drawn token
    /// and those that its constraint forced), many a prefill after preemption.
    pub(crate) num_generated: usize,
    /// Drafted tokens that follow a decode row.
    pub(crate) num_drafted: usize,
    /// Maximum number of tokens in one chunk of its prompt.
    pub(crate) max_chunk: usize,
    /// What its tenant was served, which comes before the order of arrival.
    pub(crate) served: u64,
    /// Order of arrival.
    pub(crate) arrival: u64,
}

impl Candidate {
    fn is_decode(&self) -> bool {
        is_decode(self.num_pending, self.num_generated > 0)
    }

    fn is_prompt(&self) -> bool {
        !self.is_decode() && self.num_pending > 0
    }

    /// Maximum number of tokens in its next chunk.
    fn wanted(&self) -> usize {
        self.num_pending.min(self.max_chunk.max(1))
    }
}

/// Whether a sequence with `num_pending` tokens gets decode rows, and does not count as a prompt: only its
/// next token is missing, or it generates and a few were forced after that.
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
    /// Number of drafted tokens to verify after them.
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

/// Plans steps, and measures their time.
#[derive(Debug)]
pub(crate) struct Scheduler {
    budget: StepBudget,
    /// Whether streams and prompts take turns instead of sharing a step.
    takes_turns: bool,
    /// Whose turn it is among prompts: the oldest's or the shortest's.
    is_oldest_first: bool,
    /// Whether others were passed over for short prompts: the next rest of the streams begins with a
    /// chunk of the oldest.
    passed_over: bool,
    /// Time spent moving cells since the last step, which is taken off the next one.
    moved: Duration,
}

impl Scheduler {
    /// `takes_turns` for a context that computes the parts of a mixed batch one after the other
    /// anyway: apart, the rows of the streams do not scan as far as the prompt is long.
    pub(crate) fn new(
        config: &SchedulerConfig,
        takes_turns: bool,
        tile: usize,
        is_deterministic: bool,
    ) -> Self {
        let budget = StepBudget::new(config, tile, is_deterministic);
        Self { budget, takes_turns, is_oldest_first: true, passed_over: false, moved: Duration::ZERO }
    }

    /// Seconds of a prompt token, as measured.
    pub(crate) fn seconds_per_prompt_token(&self) -> Option<f64> {
        self.budget.seconds_per_prompt_token()
    }

    /// Seconds of the shortest step, as measured.
    pub(crate) fn seconds_per_step(&self) -> Option<f64> {
        self.budget.seconds_per_step()
    }

    /// Takes the time that was spent moving cells off the next step.
    pub(crate) fn charge(&mut self, moved: Duration) {
        self.moved += moved;
    }

    /// Plans a step of at most `max_rows` rows; prompt chunks get what the budget allows.
    ///
    /// Every sequence that generates has its row; drafts are dropped first where rows are short, also for the chunk
    /// of a prompt in the same step. Of several prompts the oldest and the shortest are first in turns.
    pub(crate) fn plan(&mut self, candidates: &[Candidate], max_rows: usize) -> Plan {
        let num_decoding = candidates.iter().filter(|candidate| candidate.is_decode()).count();
        let is_equal = self.takes_turns && num_decoding > MAX_UNEQUAL && !self.budget.is_deterministic;
        let max_each = if is_equal { 1 } else { MAX_DECODE_ROWS };
        let prompts: Vec<&Candidate> = candidates.iter().filter(|candidate| candidate.is_prompt()).collect();
        let moved = std::mem::take(&mut self.moved);
        let num_kept = if self.takes_turns {
            0
        } else {
            let wanted = prompts.iter().map(|prompt| prompt.wanted()).fold(0, usize::saturating_add);
            wanted.min(self.budget.least_shared_rows(moved))
        };
        let decode = plan_decode(candidates, max_rows, max_each, num_kept);
        let mut plan = Plan { decode, ..Plan::default() };
        if prompts.is_empty() {
            return plan;
        }
        let num_decode_rows = plan.num_decode_rows();
        if plan.decode.is_empty() {
            plan.prefill = self.prefill(&prompts, self.budget.idle_rows(prompts.len()).min(max_rows));
        } else if self.takes_turns {
            let is_turn_of_all = self.passed_over && !self.budget.have_rested();
            let together =
                if is_turn_of_all { Vec::new() } else { short_prompts_beside_beginners(candidates) };
            let rows = self.budget.turn_rows(num_decode_rows, !together.is_empty(), moved);
            if rows > 0 {
                plan.num_resting = plan.decode.len();
                plan.decode.clear();
                let rows = rows.min(max_rows);
                plan.prefill = if together.is_empty() {
                    self.prefill(&prompts, rows)
                } else {
                    self.passed_over |= together.len() < prompts.len();
                    plan_prefill(&together, rows, self.budget.tile, true)
                };
            }
        } else {
            let rows = self.budget.shared_rows(num_decode_rows, moved).min(max_rows - num_decode_rows);
            plan.prefill = self.prefill(&prompts, rows);
        }
        plan
    }

    fn prefill(&mut self, prompts: &[&Candidate], rows: usize) -> Vec<Share> {
        let oldest_first = std::mem::take(&mut self.passed_over) || self.is_oldest_first;
        if prompts.len() > 1 {
            self.is_oldest_first = !oldest_first;
        }
        plan_prefill(prompts, rows, self.budget.tile, oldest_first)
    }

    /// Records the time of the planned step.
    pub(crate) fn record(&mut self, plan: &Plan, took: Duration) {
        let rows = plan.num_decode_rows() + plan.num_prefill_rows();
        self.budget.record(rows, plan.num_resting > 0, took);
    }
}

/// The short prompts, if all streams have just begun.
fn short_prompts_beside_beginners(candidates: &[Candidate]) -> Vec<&Candidate> {
    let mut streams = candidates.iter().filter(|candidate| candidate.is_decode());
    if streams.any(|stream| stream.num_generated > JUST_BEGUN) {
        return Vec::new();
    }
    let is_one =
        |prompt: &&Candidate| prompt.is_prompt() && prompt.num_new.max(prompt.num_pending) <= SHORT_PROMPT;
    candidates.iter().filter(is_one).collect()
}

/// `num_kept`: rows that drafts leave to prompts.
fn plan_decode(candidates: &[Candidate], max_rows: usize, max_each: usize, num_kept: usize) -> Vec<Share> {
    let mut spare = max_rows;
    let mut shares = Vec::new();
    let mut num_drafted = Vec::new();
    // Each of those that come later has a row.
    let mut num_later = candidates.iter().filter(|candidate| candidate.is_decode()).count();
    for candidate in candidates.iter().filter(|candidate| candidate.is_decode()) {
        num_later -= 1;
        let most = spare.saturating_sub(num_later).max(1).min(spare);
        let num_tokens = candidate.num_pending.min(max_each).min(most);
        if num_tokens == 0 {
            break;
        }
        spare -= num_tokens;
        shares.push(Share { index: candidate.index, num_tokens, num_drafted: 0 });
        // A draft continues from the last pending token.
        num_drafted.push(if num_tokens == candidate.num_pending { candidate.num_drafted } else { 0 });
    }
    spare = spare.saturating_sub(num_kept);
    for (share, wanted) in shares.iter_mut().zip(num_drafted) {
        share.num_drafted = wanted.min(spare);
        spare -= share.num_drafted;
    }
    shares
}

#[cfg(test)]
mod tests;
