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
    /// With so many snapshots a slot, 0 where the model keeps none.
    pub(super) fn new(num_slots: usize, num_snapshots: usize) -> Self {
        Self { num_snapshots, most: vec![0; num_slots] }
    }

    /// The most tokens that can be rolled back now.
    pub(super) fn most(&self, slot: SlotId) -> usize {
        self.most[slot.index()]
    }

    /// Enters a batch that was computed. The token before it has no snapshot any more.
    pub(super) fn note(&mut self, rows: &[Row]) {
        if self.num_snapshots == 0 {
            return;
        }
        for own in rows.chunk_by(|a, b| a.slot == b.slot) {
            self.most[own[0].slot.index()] = (own.len() - 1).min(self.num_snapshots);
        }
    }

    /// The slot was rolled back, or holds another state.
    pub(super) fn forget(&mut self, slot: SlotId) {
        self.most[slot.index()] = 0;
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
    fn once_and_within_the_last_batch() {
        let mut rollback = Rollback::new(2, 8);
        rollback.note(&[rows(0, 4), rows(1, 20)].concat());
        assert_eq!((rollback.most(SlotId(0)), rollback.most(SlotId(1))), (3, 8));
        rollback.forget(SlotId(0));
        assert_eq!((rollback.most(SlotId(0)), rollback.most(SlotId(1))), (0, 8));
        rollback.note(&rows(1, 1));
        assert_eq!(rollback.most(SlotId(1)), 0);
    }

    #[test]
    fn never_without_snapshots() {
        let mut rollback = Rollback::new(1, 0);
        rollback.note(&rows(0, 4));
        assert_eq!(rollback.most(SlotId(0)), 0);
    }
}
