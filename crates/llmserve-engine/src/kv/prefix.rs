//! Comparing token sequences.

use crate::ids::TokenId;

/// Tokens that two sequences share from the start.
pub(crate) fn common_prefix(a: &[TokenId], b: &[TokenId]) -> usize {
    /// Compared as slices, which is much faster than one by one.
    const CHUNK: usize = 64;
    let limit = a.len().min(b.len());
    let mut len = 0;
    while len + CHUNK <= limit && a[len..len + CHUNK] == b[len..len + CHUNK] {
        len += CHUNK;
    }
    len + a[len..limit].iter().zip(&b[len..limit]).take_while(|(x, y)| x == y).count()
}

/// A row that is computed by itself is split over the cells if there are more than this many (ggml's
/// `use_split_kv_path`, from 512 cells on, which are counted in steps of 256).
const SPLIT_FROM: usize = 256;

/// How many of the shared tokens' cells are as a prompt would compute them for itself.
///
/// Whole tiles of a prompt are computed by another kernel than the rest of it. So of cells that come from another
/// prompt only such are used as both compute alike, up to where the next tile begins, and so that the rest is not a
/// single row if it would else be several. A sequence that continues
/// generated text keeps all: computed as a prompt, that would cost a conversation most of its cells each turn.
///
/// # Arguments
/// * `shared`: tokens that both share from the start.
/// * `others`: length of the prompt that has the cells.
/// * `own`: length of the prompt that wants them.
pub(crate) fn computed_alike(shared: usize, others: usize, own: usize, tile: usize) -> usize {
    let whole = |len: usize| len / tile * tile;
    let goes_on = shared > others;
    if tile <= 1 || goes_on {
        shared
    } else if whole(others) == whole(own) && shared >= whole(own) {
        let is_split = own > SPLIT_FROM && own - whole(own) > 1;
        if is_split { shared.min(own - 2) } else { shared }
    } else {
        whole(shared).min(whole(others)).min(whole(own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(ids: impl IntoIterator<Item = i32>) -> Vec<TokenId> {
        ids.into_iter().map(TokenId).collect()
    }

    #[test]
    fn cells_are_used_as_far_as_both_prompts_compute_them_alike() {
        assert_eq!(computed_alike(100, 200, 300, 1), 100, "there are no tiles");
        assert_eq!(computed_alike(49, 50, 50, 64), 49, "no tile is whole");
        assert_eq!(computed_alike(199, 200, 200, 64), 199, "the last tile is behind");
        assert_eq!(computed_alike(195, 200, 210, 64), 195);
        assert_eq!(
            computed_alike(299, 300, 300, 64),
            298,
            "one row by itself is computed differently from two"
        );
        assert_eq!(computed_alike(320, 321, 321, 64), 320);
        assert_eq!(computed_alike(150, 200, 200, 64), 128, "the next tile is whole in both");
        assert_eq!(computed_alike(100, 100, 200, 64), 64, "a rest there, a tile here");
        assert_eq!(computed_alike(100, 500, 110, 64), 64);
        assert_eq!(computed_alike(50, 50, 200, 64), 0);
        assert_eq!(computed_alike(127, 128, 128, 64), 64);
        assert_eq!(computed_alike(230, 200, 300, 64), 230, "a conversation goes on");
    }

    #[test]
    fn counts_what_is_shared_from_the_start() {
        assert_eq!(common_prefix(&tokens([1, 2, 3]), &tokens([1, 2, 4])), 2);
        assert_eq!(common_prefix(&tokens([1]), &tokens([2])), 0);
        assert_eq!(common_prefix(&[], &tokens([2])), 0);
        let long = tokens(0..1000);
        for cut in [0, 1, 63, 64, 65, 128, 999, 1000] {
            let mut other = long.clone();
            other.truncate(cut);
            other.push(TokenId(-1));
            assert_eq!(common_prefix(&long, &other), cut);
        }
    }
}
