//! Bounds on what compiling a schema takes. They are counted in steps, so that the same schemas are refused everywhere.

use super::error::SchemaError;

/// A unit is a comparison, or some 20 bytes. On the schemas that people publish this takes 20 ms at the median and 100 ms
/// at the ninth decile; what llguidance then takes for a large grammar is not bounded by it (up to 2 s).
const BUDGET: usize = 1_500_000;
/// Maximum and minimum number of ways to choose that are kept of one place, among those in which more than one choice falls
/// on a later branch. The more has been written, the fewer are kept.
const MAX_KEPT: usize = 64;
const MIN_KEPT: usize = 8;
/// The share of what is left that one place may take before the rest of its ways is left out.
const SHARE: usize = 12;
/// After so many units have been written, the fewest are kept.
const MUCH: usize = 150_000;

/// Bounds the work and the memory that a whole schema takes: everything that is visited or kept
/// is paid for.
#[derive(Debug)]
pub(super) struct Budget {
    left: usize,
    written: usize,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self { left: BUDGET, written: 0 }
    }

    /// # Errors
    /// The budget is spent; `path` is where.
    pub(super) fn pay(&mut self, cost: usize, path: &str) -> Result<(), SchemaError> {
        let left = self.left.checked_sub(cost);
        let reason = "is too large: its alternatives and merged members are too many";
        self.left = left.ok_or_else(|| SchemaError::new("schema", path, reason))?;
        Ok(())
    }

    /// Pays for what becomes a part of the grammar.
    pub(super) fn write(&mut self, cost: usize, path: &str) -> Result<(), SchemaError> {
        self.written += cost;
        self.pay(cost, path)
    }

    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// How much one place may take.
    pub(super) fn share(&self) -> usize {
        self.left / SHARE
    }

    /// How many ways of a place are kept.
    pub(super) fn num_kept(&self) -> usize {
        MIN_KEPT + (MAX_KEPT - MIN_KEPT) * MUCH.saturating_sub(self.written) / MUCH
    }
}
