use super::acceptance::Acceptance;
use std::time::Duration;
#[allow(dead_code)]
pub(crate) struct DraftCandidate<'a> {
    pub(crate) acceptance: &'a Acceptance,
    pub(crate) max: usize,
    pub(crate) adaptive: bool,
    pub(crate) is_head: bool,
}
#[allow(dead_code)]
pub(crate) struct DraftStep {
    pub(crate) num_decoding: usize,
    pub(crate) num_drafting: usize,
    pub(crate) draft_len: usize,
    pub(crate) num_draft_rows: usize,
    pub(crate) took: Duration,
}
pub(crate) struct DraftController;
impl DraftController {
    pub(crate) fn new() -> Self {
        Self
    }
    pub(crate) fn acceptance(&self, _is_head: bool) -> Acceptance {
        Acceptance
    }
    pub(crate) fn choose(&mut self, sequences: &[DraftCandidate<'_>]) -> Vec<usize> {
        sequences.iter().map(|s| s.max).collect()
    }
    pub(crate) fn record_step(&mut self, _step: &DraftStep) {}
    pub(crate) fn record_acceptance(&mut self, _is_head: bool, _d: usize, _a: usize) {}
}
