//! Which rows of a batch are computed in one call, so that each token meets the same kernel in every run.
//!
//! ggml's flash attention on CPUs works on tiles of 64 rows where a sequence has at least as many in a computation,
//! and else row by row, with sums of another precision (`GGML_FA_TILE_Q` in `ggml-cpu`). So whole tiles of a prompt are
//! computed apart from the rest of it, whatever the size of the chunk.

use crate::model::Row;

/// Rows of a tile.
pub(super) const TILE: usize = 64;
/// Sequences of up to this many rows are computed together: decode rows with their drafts, whose cost is that of
/// reading the weights. More rows gain nothing from company: llama.cpp would compute unequal ones in parts.
const MAX_TOGETHER: usize = 16;

/// The rows of each sequence by their index, for a call each.
pub(super) fn sequences(rows: &[Row]) -> Vec<Vec<usize>> {
    let mut first = 0;
    let own = rows.chunk_by(|a, b| a.slot == b.slot).map(|own| {
        first += own.len();
        (first - own.len()..first).collect()
    });
    own.collect()
}

/// The rows of each call by their index, in the order of the calls. Rows of a sequence are adjacent and in order.
/// `is_deterministic`: no call has rows of several sequences.
pub(super) fn parts(rows: &[Row], is_deterministic: bool) -> Vec<Vec<usize>> {
    let max_together = if is_deterministic { 0 } else { MAX_TOGETHER };
    let mut together = Vec::new();
    let mut apart = Vec::new();
    let mut first = 0;
    for own in rows.chunk_by(|a, b| a.slot == b.slot) {
        let end = first + own.len();
        if own.len() <= max_together {
            together.extend(first..end);
        } else if own.len() < TILE {
            apart.push((first..end).collect());
        } else {
            let position = own[0].position as usize;
            let before = position.next_multiple_of(TILE) - position;
            let after = (position + own.len()) % TILE;
            let borders = [first, first + before, end - after, end];
            let pieces = borders.windows(2).map(|piece| (piece[0]..piece[1]).collect::<Vec<usize>>());
            apart.extend(pieces.filter(|piece| !piece.is_empty()));
        }
        first = end;
    }
    let mut parts = apart;
    if !together.is_empty() {
        parts.insert(0, together);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{SlotId, TokenId};

    fn rows(slot: u32, position: u32, num: u32) -> Vec<Row> {
        let row = |offset| Row {
            slot: SlotId(slot),
            token: TokenId(1),
            position: position + offset,
            output: false,
        };
        (0..num).map(row).collect()
    }

    fn lens(rows: &[Row]) -> Vec<usize> {
        let parts = parts(rows, false);
        let mut all: Vec<usize> = parts.concat();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..rows.len()), "each row once");
        parts.iter().map(Vec::len).collect()
    }

    #[test]
    fn whole_tiles_are_computed_apart_from_the_rest() {
        assert_eq!(lens(&rows(0, 0, 192)), [192]);
        assert_eq!(lens(&rows(0, 0, 200)), [192, 8]);
        assert_eq!(lens(&rows(0, 60, 140)), [4, 128, 8]);
        assert_eq!(lens(&rows(0, 1, 126)), [63, 63]);
        assert_eq!(lens(&rows(0, 0, 63)), [63]);
        assert_eq!(lens(&rows(0, 30, 63)), [63]);
    }

    #[test]
    fn decode_rows_and_drafts_are_computed_together() {
        let batch = [rows(0, 9, 1), rows(1, 0, 100), rows(2, 5, 4), rows(3, 0, 40)].concat();
        assert_eq!(lens(&batch), [5, 64, 36, 40]);
        assert_eq!(lens(&[rows(0, 9, 1), rows(1, 8, 9)].concat()), [10]);
        assert!(parts(&[], false).is_empty());
        assert_eq!(parts(&[rows(0, 9, 1), rows(1, 8, 2)].concat(), true), [vec![0], vec![1, 2]]);
        assert_eq!(sequences(&[rows(0, 9, 1), rows(1, 8, 2)].concat()), [vec![0], vec![1, 2]]);
    }
}
