//! How drafts by heads and by prompt lookup have fared in an engine.

use super::acceptance::AcceptanceHistory;

/// Weight of the newest step in the share of asked sequences that had a draft.
const FOUND_WEIGHT: f64 = 0.05;

#[derive(Debug)]
pub(super) struct Method {
    pub(super) history: AcceptanceHistory,
    /// Share of the asked sequences that had a draft.
    pub(super) found: f64,
}

#[derive(Debug)]
pub(super) struct Methods {
    heads: Method,
    lookups: Method,
}

impl Methods {
    pub(super) fn new() -> Self {
        let new = || Method { history: AcceptanceHistory::new(), found: 1.0 };
        Self { heads: new(), lookups: new() }
    }

    pub(super) fn of(&self, is_head: bool) -> &Method {
        if is_head { &self.heads } else { &self.lookups }
    }

    pub(super) fn of_mut(&mut self, is_head: bool) -> &mut Method {
        if is_head { &mut self.heads } else { &mut self.lookups }
    }
}

impl Method {
    /// Records how many of the asked sequences had a draft.
    pub(super) fn record_found(&mut self, asked: usize, found: usize) {
        if asked > 0 {
            let share = found as f64 / asked as f64;
            self.found += FOUND_WEIGHT * (share.min(1.0) - self.found);
        }
    }
}
