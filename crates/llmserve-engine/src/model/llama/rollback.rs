//! How far a state that cannot be cut back can be rolled back: by snapshots that llama.cpp keeps of the last
//! tokens of a sequence's last batch, once.

use crate::ids::SlotId;
use crate::model::Row;

/// How many tokens each slot can be rolled back by.
pub(super) struct Rollback {
    num_snapshots: usize,
    most: Vec<usize>,
}

impl Rollback {
    /// `num_snapshots` is the number for each slot, 0 if the model keeps none.
    pub(super) fn new(num_slots: usize, num_snapshots: usize) -> Self {
        Self { num_snapshots, most: vec![0; num_slots] }
    }

    /// Whether the model keeps snapshots.
    pub(super) fn has_snapshots(&self) -> bool {
        self.num_snapshots > 0
    }

    /// How many tokens can be rolled back now.
    pub(super) fn most(&self, slot: SlotId) -> usize {
        self.most[slot.index()]
    }

    /// Records computed rows: a sequence with a draft can be rolled back to before any token of it.
    pub(super) fn note(&mut self, rows: &[Row]) {
        if self.num_snapshots == 0 {
            return;
        }
        for own in rows.chunk_by(|a, b| a.slot == b.slot) {
            let num_drafted = own.iter().filter(|row| row.output).count().saturating_sub(1);
            self.most[own[0].slot.index()] = num_drafted.min(self.num_snapshots);
        }
    }

    /// The rows that are computed together, in the order of the calls; one part or none: all of them.
    ///
    /// llama.cpp moves the states of sequences together for each computation, but not their snapshots: a
    /// sequence that may be rolled back loses them where another computation comes after its own, except that
    /// of a single sequence, which moves nothing. So all others come first, and those with drafts one by one.
    pub(super) fn parts(&self, rows: &[Row]) -> Vec<Vec<usize>> {
        if self.num_snapshots == 0 {
            return Vec::new();
        }
        let mut parts = vec![Vec::new()];
        let mut first = 0;
        for own in rows.chunk_by(|a, b| a.slot == b.slot) {
            let indices = first..first + own.len();
            first += own.len();
            // With a draft, several rows are drawn from.
            if own.iter().filter(|row| row.output).count() > 1 {
                parts.push(indices.collect());
            } else {
                parts[0].extend(indices);
            }
        }
        parts.retain(|part| !part.is_empty());
        parts
    }

    /// The slot was rolled back, or has another state.
    pub(super) fn forget(&mut self, slot: SlotId) {
        self.most[slot.index()] = 0;
    }

    /// States may be moved now, and snapshots stay behind.
    pub(super) fn forget_all(&mut self) {
        self.most.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::TokenId;

    fn rows(slot: u32, num: u32) -> Vec<Row> {
        let row = |position| Row { slot: SlotId(slot), token: TokenId(1), position, output: true };
        (0..num).map(row).collect()
    }

    #[test]
    fn once_and_within_the_last_draft() {
        let mut rollback = Rollback::new(2, 8);
        rollback.note(&[rows(0, 4), rows(1, 20)].concat());
        assert_eq!((rollback.most(SlotId(0)), rollback.most(SlotId(1))), (3, 8));
        rollback.forget(SlotId(0));
        assert_eq!((rollback.most(SlotId(0)), rollback.most(SlotId(1))), (0, 8));
        rollback.forget_all();
        rollback.note(&rows(0, 1));
        assert_eq!((rollback.most(SlotId(0)), rollback.most(SlotId(1))), (0, 0));
    }

    #[test]
    fn sequences_with_drafts_are_computed_one_by_one_after_the_others() {
        let plain = |slot| rows(slot, 5).into_iter().map(|row| Row { output: row.position == 4, ..row });
        let batch = [rows(0, 3), plain(1).collect(), rows(2, 2), plain(3).collect()].concat();
        let parts = Rollback::new(4, 8).parts(&batch);
        let others: Vec<usize> = (3..8).chain(10..15).collect();
        assert_eq!(parts, [others, vec![0, 1, 2], vec![8, 9]]);
        assert!(Rollback::new(4, 0).parts(&batch).is_empty());
        assert_eq!(Rollback::new(4, 8).parts(&rows(0, 3)).len(), 1);
    }

    #[test]
    fn never_without_snapshots() {
        let mut rollback = Rollback::new(1, 0);
        rollback.note(&rows(0, 4));
        assert_eq!(rollback.most(SlotId(0)), 0);
    }
}
