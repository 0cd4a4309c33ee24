//! Shares the rows that a step has for prompts out among them.

use super::{Candidate, Share};

/// What others leave of a budget is used from this many rows on, or a tile: fewer cost more than they bring.
const MIN_PART: usize = 16;

/// Shares `rows` out among prompts, the oldest or the shortest first.
///
/// The shortest soon gives its first token, the oldest must not wait for ever: the caller takes turns. Of several
/// tenants, the one that was served least has the oldest.
pub(super) fn plan_prefill(
    prompts: &[&Candidate],
    rows: usize,
    tile: usize,
    oldest_first: bool,
) -> Vec<Share> {
    let mut prompts = prompts.to_vec();
    if oldest_first {
        prompts.sort_by_key(|prompt| (prompt.served, prompt.arrival));
        if let Some(others) = prompts.get_mut(1..) {
            others.sort_by_key(|prompt| (prompt.num_pending, prompt.arrival));
        }
    } else {
        prompts.sort_by_key(|prompt| (prompt.num_pending, prompt.arrival));
    }
    let mut left = rows;
    let mut shares = Vec::new();
    for prompt in prompts {
        let num_tokens = chunk(prompt, left, tile);
        let is_part = num_tokens < tile.max(MIN_PART) && num_tokens < prompt.wanted();
        if num_tokens == 0 || (is_part && !shares.is_empty()) {
            continue;
        }
        left -= num_tokens;
        shares.push(Share { index: prompt.index, num_tokens, num_drafted: 0 });
    }
    shares
}

/// The next chunk of a prompt, of at most `rows` rows, which ends at a tile boundary unless the prompt ends
/// earlier.
///
/// Kernels that work on whole tiles round differently from those for the rest. With chunks of whole tiles each token
/// meets the same kernel in every run, whatever time its neighbours took. If a tile does not fit into the budget, parts
/// of one are computed, which end at halves, quarters and so on.
fn chunk(prompt: &Candidate, rows: usize, tile: usize) -> usize {
    let wanted = prompt.wanted();
    if wanted <= rows || rows == 0 {
        return wanted.min(rows);
    }
    let border = if rows >= tile { tile } else { 1 << rows.ilog2() };
    let end = (prompt.position + rows) / border * border;
    if end > prompt.position { end - prompt.position } else { rows }
}
