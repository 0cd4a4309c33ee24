//! The saved state of a slot of a model with a draft head: the target's cells, and those of the draft context
//! if it has followed.
//!
//! Lengths (u64, little-endian) and bytes of the target's cells, the draft context's, and the last hidden row
//! (f32). The last two are empty if the slot was not followed.

/// Parts of a saved state.
pub(super) struct SlotState<'a> {
    pub(super) target: &'a [u8],
    /// Cells of the draft context and the last hidden row.
    pub(super) draft: Option<(&'a [u8], Vec<f32>)>,
}

/// Size of the three lengths in bytes.
const LENGTHS_BYTES: usize = 3 * 8;

pub(super) fn num_bytes(target: usize, draft: usize, hidden_row: usize) -> usize {
    LENGTHS_BYTES + target + draft + 4 * hidden_row
}

pub(super) fn encode(target: &[u8], draft: Option<&(Vec<u8>, Vec<f32>)>) -> Vec<u8> {
    let (cells, last) = draft.map_or((&[][..], &[][..]), |(cells, last)| (cells, last));
    let mut bytes = Vec::with_capacity(num_bytes(target.len(), cells.len(), last.len()));
    let mut add = |part: &[u8]| {
        bytes.extend((part.len() as u64).to_le_bytes());
        bytes.extend(part);
    };
    add(target);
    add(cells);
    add(&last.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>());
    bytes
}

/// Takes a state apart; `None` for anything else.
pub(super) fn decode(bytes: &[u8]) -> Option<SlotState<'_>> {
    let (target, rest) = part(bytes)?;
    let (cells, rest) = part(rest)?;
    let (last, rest) = part(rest)?;
    let (values, odd) = last.as_chunks::<4>();
    if !rest.is_empty() || !odd.is_empty() {
        return None;
    }
    let last: Vec<f32> = values.iter().map(|value| f32::from_le_bytes(*value)).collect();
    let is_followed = !cells.is_empty() && last.iter().all(|value| value.is_finite());
    Some(SlotState { target, draft: is_followed.then_some((cells, last)) })
}

fn part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<8>()?;
    rest.split_at_checked(usize::try_from(u64::from_le_bytes(*len)).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_comes_back_as_it_was() {
        let bytes = encode(b"target", Some(&(b"draft".to_vec(), vec![0.5, -2.0])));
        assert_eq!(bytes.len(), num_bytes(6, 5, 2));
        let state = decode(&bytes).unwrap();
        assert_eq!(state.target, b"target");
        assert_eq!(state.draft, Some((&b"draft"[..], vec![0.5, -2.0])));
        assert_eq!(decode(&encode(b"target", None)).unwrap().draft, None);
    }

    #[test]
    fn other_bytes_are_refused() {
        let bytes = encode(b"target", Some(&(b"draft".to_vec(), vec![0.5])));
        assert!((0..bytes.len()).all(|len| decode(&bytes[..len]).is_none()));
        assert!(decode(&[bytes, vec![0]].concat()).is_none());
        assert!(decode(&u64::MAX.to_le_bytes()).is_none());
    }
}
