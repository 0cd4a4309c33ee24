//! The cells of a state as llama.cpp writes it: checked before it is trusted, since it may come from a file.
//!
//! Magic number, sequence, number of streams (u32 each), and for each stream the number of cells (u32), the cells
//! (position, number of sequences, with some models 12 further bytes, sequence) and their values. A state of one
//! sequence has cells in one stream.

/// Size of a cell in bytes, without and with what some models add.
const CELL_BYTES: [usize; 2] = [12, 24];

/// Whether the cells of a full-attention state have the positions `0..num_tokens`, each once. A state of another
/// build than the above is not judged.
pub(super) fn has_each_position(state: &[u8], num_tokens: usize) -> bool {
    let word = |offset: usize| {
        let bytes = state.get(offset..offset.checked_add(4)?)?;
        bytes.try_into().ok().map(u32::from_le_bytes)
    };
    let Some(num_streams) = word(8).filter(|&num| num <= 256) else {
        return true;
    };
    let counts = (0..num_streams as usize).map(|stream| (12 + 4 * stream, word(12 + 4 * stream)));
    let Some((offset, Some(count))) = counts.into_iter().find(|&(_, count)| count != Some(0)) else {
        return num_tokens == 0;
    };
    let first = offset + 4;
    let cells = |bytes: usize| (0..num_tokens).map(move |index| first + index * bytes);
    // llama.cpp takes cells of one sequence only.
    let is_so = |bytes: &usize| cells(*bytes).all(|cell| word(cell + 4) == Some(1));
    let Some(bytes) = CELL_BYTES.into_iter().find(is_so) else {
        return false;
    };
    let mut seen = vec![false; num_tokens];
    count as usize == num_tokens
        && cells(bytes).all(|cell| {
            let position = word(cell).and_then(|position| seen.get_mut(position as usize));
            position.is_some_and(|seen| !std::mem::replace(seen, true))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(num_streams: u32, stream: u32, positions: &[u32], extension: &[u32]) -> Vec<u8> {
        let mut words = vec![0xaf14_3cd8, 0, num_streams];
        words.extend(vec![0; stream as usize]);
        words.push(positions.len() as u32);
        for &position in positions {
            words.extend([position, 1].iter().chain(extension).chain(&[7]));
        }
        words.extend([3; 100]);
        words.into_iter().flat_map(u32::to_le_bytes).collect()
    }

    #[test]
    fn each_position_must_be_there_once() {
        for (extension, stream) in [(&[][..], 0), (&[5, 6, 7], 0), (&[], 3), (&[5, 6, 7], 3)] {
            let has = |positions: &[u32], num_tokens| {
                has_each_position(&state(4, stream, positions, extension), num_tokens)
            };
            assert!(has(&[0, 1, 2], 3));
            assert!(has(&[2, 0, 1], 3), "in any order");
            assert!(!has(&[0, 1, 1], 3) && !has(&[0, 1, 3], 3));
            assert!(!has(&[0, 1], 3) && !has(&[0, 1, 2, 3], 3));
        }
    }

    #[test]
    fn what_ends_early_is_refused() {
        let whole = state(1, 0, &[0, 1, 2], &[]);
        assert!(!has_each_position(&whole[..30], 3));
        assert!(has_each_position(&[], 3), "not judged: llama.cpp refuses it");
    }
}
