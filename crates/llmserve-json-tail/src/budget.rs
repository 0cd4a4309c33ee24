//! Bounds on what compiling a schema takes. They are counted in steps, so that the same schemas are refused everywhere.

use super::error::SchemaError;

/// A unit is a comparison, or some 20 bytes.
const BUDGET: usize = 1_500_000;
/// Maximum and minimum number of ways to choose that are kept of one place, among those in which more than one choice falls
/// on a later branch. The more has been written, the fewer are kept.
const MAX_KEPT: usize = 64;
const MIN_KEPT: usize = 4;
/// Maximum and minimum number of ways of one place that are objects.
const MAX_OBJECTS: usize = 500;
const MIN_OBJECTS: usize = 8;
/// The share of what is left that one place may take before the rest of its ways is left out.
const SHARE: usize = 12;
/// After so many units have been written, the fewest are kept. llguidance takes some 5 ms for a thousand units.
const MUCH: usize = 20_000;

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

    /// How many ways of a place are kept, of those that choose more than one later branch.
    pub(super) fn num_kept(&self) -> usize {
        self.fewer(MAX_KEPT, MIN_KEPT)
    }

    /// How many ways of a place may be objects.
    pub(super) fn num_objects(&self) -> usize {
        self.fewer(MAX_OBJECTS, MIN_OBJECTS)
    }

    fn fewer(&self, max: usize, min: usize) -> usize {
        min + (max - min) * MUCH.saturating_sub(self.written) / MUCH
    }
}
