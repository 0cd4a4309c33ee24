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

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(ids: impl IntoIterator<Item = i32>) -> Vec<TokenId> {
        ids.into_iter().map(TokenId).collect()
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
