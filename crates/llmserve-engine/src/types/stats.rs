//! Counters and gauges of an engine, read at any time without stopping it.

/// A snapshot of an engine's state. Counters only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Stats {
    /// Requests whose prompt is being tokenized, or that are waiting for their turn in a session.
    pub num_preparing: usize,
    /// Requests that are waiting for a slot.
    pub num_waiting: usize,
    /// Sequences in the batch.
    pub num_running: usize,
    /// Number of slots of the context.
    pub num_slots: usize,
    /// Number of KV cells of the context.
    pub num_cells: usize,
    /// KV cells in use, including cached tokens.
    pub num_used_cells: usize,
    /// KV cells of the sequences in the batch.
    pub num_running_cells: usize,
    /// Maximum number of tokens in one sequence.
    pub context_length: usize,
    /// Number of compute threads.
    pub num_threads: usize,
    /// Host memory used by parked sequences, in bytes.
    pub parked_bytes: usize,
    /// Requests that were accepted into the queue.
    pub requests_accepted: u64,
    /// Requests that were refused (invalid, too long, queue full).
    pub requests_refused: u64,
    /// Requests that finished with `stop`.
    pub requests_stopped: u64,
    /// Requests that finished with `length`.
    pub requests_length: u64,
    /// Requests that were cancelled.
    pub requests_cancelled: u64,
    /// Requests that failed.
    pub requests_failed: u64,
    /// Prompt tokens of started requests, including cached ones.
    pub prompt_tokens: u64,
    /// Prompt tokens that were taken from the prefix cache.
    pub cached_tokens: u64,
    /// Drawn tokens.
    pub completion_tokens: u64,
    /// Seconds spent on making drafts.
    pub draft_seconds: f64,
    /// Number of users that keep the draft context open.
    pub num_draft_users: usize,
    /// Tokens proposed by drafters.
    pub draft_tokens: u64,
    /// Proposed tokens that were accepted.
    pub accepted_tokens: u64,
    /// Drafts that were verified.
    pub drafts: u64,
    /// Times that a sequence lost its slot to others and resumed later.
    pub preemptions: u64,
    /// Number of steps.
    pub steps: u64,
    /// Number of rows in all steps.
    pub rows: u64,
    /// Number of rows of prompts among them.
    pub prefill_rows: u64,
    /// Seconds spent in llama.cpp, drafts not counted.
    pub decode_seconds: f64,
    /// Seconds spent in steps outside llama.cpp.
    pub overhead_seconds: f64,
    /// Requests whose constraint was compiled or found compiled.
    pub constraints: u64,
    /// Seconds that their compilation took.
    pub constraint_seconds: f64,
    /// Seconds that the load of the model took.
    pub load_seconds: f64,
}

impl Stats {
    /// Seconds spent in llama.cpp, including the draft context.
    pub(crate) fn compute_seconds(&self) -> f64 {
        self.decode_seconds + self.draft_seconds
    }
}
