//! A sequence as seen by the choice of draft lengths.

use super::acceptance::Acceptance;

/// A sequence that decodes in the next step.
#[derive(Debug)]
pub(crate) struct DraftCandidate<'a> {
    pub(crate) acceptance: &'a Acceptance,
    /// The longest draft there is room for. 0: the sequence does not draft.
    pub(crate) max: usize,
    /// False: always the longest draft.
    pub(crate) adaptive: bool,
    pub(crate) is_head: bool,
}
