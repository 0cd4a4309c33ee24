//! Which of a slot's tokens a draft context has taken in, and which it has yet to take in.
//!
//! The draft context's cell at position `p` depends on the token there and the target's hidden row one
//! position before. Rows are collected here as the target computes them and taken in when a draft is
//! wanted, many at a time: a sequence that does not draft for a while costs next to nothing.

use crate::ids::TokenId;

/// One slot's state in a draft context.
#[derive(Debug, Clone)]
pub(super) struct Backlog {
    /// Values of a hidden row.
    width: usize,
    /// Tokens in the target's slot.
    end: usize,
    /// Number of cells in the draft context: one more than `end` if the next token is already there.
    num_cells: usize,
    /// The token of that extra cell; `None` if it is known to be the next one.
    ahead: Option<TokenId>,
    /// Tokens after the cells, up to `end`.
    tokens: Vec<TokenId>,
    /// For each token, the hidden row of the position before it.
    hidden: Vec<f32>,
    /// The hidden row of position `end - 1`; zeros before the first token. `None`: not known.
    last: Option<Vec<f32>>,
    /// Whether cells and tokens here cover the whole slot.
    is_whole: bool,
}

/// Tokens of a slot and the hidden rows before them, for a batch of the draft context.
pub(super) struct Taken {
    /// Position of the first one.
    pub(super) first: usize,
    pub(super) tokens: Vec<TokenId>,
    pub(super) hidden: Vec<f32>,
}

impl Taken {
    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }
}

impl Backlog {
    /// The backlog of an empty slot.
    pub(super) fn new(width: usize) -> Self {
        Self {
            width,
            end: 0,
            num_cells: 0,
            ahead: None,
            tokens: Vec::new(),
            hidden: Vec::new(),
            // As llama.cpp's own driver begins (common/speculative.cpp).
            last: Some(vec![0.0; width]),
            is_whole: true,
        }
    }

    /// The backlog of a slot with tokens that the draft context knows nothing of.
    pub(super) fn unknown(width: usize, end: usize) -> Self {
        Self { end, is_whole: end == 0, ..Self::new(width) }
    }

    /// The backlog of a slot whose tokens are all in the draft context.
    pub(super) fn complete(end: usize, last: Vec<f32>) -> Self {
        let width = last.len();
        Self { end, num_cells: end, last: Some(last), ..Self::new(width) }
    }

    /// Whether a draft can continue from the slot.
    pub(super) fn can_draft(&self) -> bool {
        self.is_whole && self.last.is_some()
    }

    /// Number of tokens that wait to be taken in.
    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    pub(super) fn num_cells(&self) -> usize {
        self.num_cells
    }

    pub(super) fn end(&self) -> usize {
        self.end
    }

    pub(super) fn last(&self) -> Option<&[f32]> {
        self.last.as_deref()
    }

    /// Records a token that the target has computed at position `end`, and its hidden row.
    pub(super) fn push(&mut self, token: TokenId, hidden: &[f32]) {
        if self.is_whole {
            let is_there = self.num_cells > self.end && self.ahead.is_none_or(|ahead| ahead == token);
            if !is_there {
                self.num_cells = self.num_cells.min(self.end);
                self.enter(token);
            }
        }
        self.ahead = None;
        self.end += 1;
        match &mut self.last {
            Some(last) => last.copy_from_slice(hidden),
            None => self.last = Some(hidden.to_vec()),
        }
    }

    fn enter(&mut self, token: TokenId) {
        match &self.last {
            Some(last) => {
                self.tokens.push(token);
                self.hidden.extend_from_slice(last);
            }
            None => self.give_up(),
        }
    }

    /// Cuts the slot back to its first `position` tokens.
    pub(super) fn trim(&mut self, position: usize) {
        if position == 0 {
            *self = Self::new(self.width);
            return;
        }
        self.ahead = None;
        if position < self.end {
            self.last = position.checked_sub(self.num_cells).and_then(|index| self.row(index));
        }
        self.end = self.end.min(position);
        self.num_cells = self.num_cells.min(position);
        let num_left = self.end.saturating_sub(self.num_cells);
        self.tokens.truncate(num_left);
        self.hidden.truncate(num_left * self.width);
    }

    /// Cuts the slot back for tokens that continue after `position - 1`, so that a draft is possible afterwards;
    /// returns how many tokens the target keeps.
    pub(super) fn trim_for_drafts(&mut self, position: usize) -> usize {
        let had = self.num_cells;
        self.trim(position);
        if !self.is_whole || self.last.is_some() || position == 0 {
            return position;
        }
        // The target computes the last token again, for its hidden row; the draft context has it.
        let num_cells = had.min(position);
        self.trim(position - 1);
        self.is_whole = true;
        self.num_cells = num_cells;
        position - 1
    }

    /// The hidden row before the waiting token `index`.
    fn row(&self, index: usize) -> Option<Vec<f32>> {
        let start = index * self.width;
        self.hidden.get(start..start + self.width).map(<[f32]>::to_vec)
    }

    /// Takes at most `max` of the waiting tokens, for a batch of the draft context.
    pub(super) fn take(&mut self, max: usize) -> Taken {
        let num = self.tokens.len().min(max);
        let first = self.num_cells;
        self.num_cells += num;
        let tokens = self.tokens.drain(..num).collect();
        Taken { first, tokens, hidden: self.hidden.drain(..num * self.width).collect() }
    }

    /// Takes the next token, at which a draft begins. Nothing may be waiting.
    pub(super) fn take_next(&mut self, token: TokenId) -> Taken {
        debug_assert!(self.tokens.is_empty(), "what waits comes first");
        // An extra cell is left of a draft that was not used.
        self.num_cells = self.end + 1;
        self.ahead = Some(token);
        let hidden = self.last.clone().unwrap_or_default();
        Taken { first: self.end, tokens: vec![token], hidden }
    }

    /// The draft context has lost its cells of the slot.
    pub(super) fn give_up(&mut self) {
        *self = Self::unknown(self.width, self.end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hidden rows of one value: the token's own number.
    fn push(backlog: &mut Backlog, token: i32) {
        backlog.push(TokenId(token), &[token as f32]);
    }

    fn pushed(tokens: &[i32]) -> Backlog {
        let mut backlog = Backlog::new(1);
        for &token in tokens {
            push(&mut backlog, token);
        }
        backlog
    }

    /// First position, tokens and the hidden row before each.
    fn rows(taken: &Taken) -> (usize, Vec<(i32, f32)>) {
        let pairs = taken.tokens.iter().map(|token| token.0).zip(taken.hidden.iter().copied());
        (taken.first, pairs.collect())
    }

    #[test]
    fn each_token_comes_with_the_row_before_it() {
        let mut backlog = pushed(&[1, 2, 3]);
        assert_eq!(rows(&backlog.take(2)), (0, vec![(1, 0.0), (2, 1.0)]));
        assert_eq!(rows(&backlog.take(9)), (2, vec![(3, 2.0)]));
        assert_eq!(rows(&backlog.take_next(TokenId(4))), (3, vec![(4, 3.0)]));
        assert_eq!((backlog.len(), backlog.num_cells(), backlog.end()), (0, 4, 3));
    }

    #[test]
    fn the_drafted_from_token_is_not_taken_in_twice() {
        let mut backlog = pushed(&[1, 2]);
        backlog.take(9);
        backlog.take_next(TokenId(3));
        // Verified with two drafts, of which one was right.
        for token in [3, 4, 9] {
            push(&mut backlog, token);
        }
        backlog.trim(4);
        assert!(backlog.can_draft());
        assert_eq!(rows(&backlog.take(9)), (3, vec![(4, 3.0)]));
        assert_eq!(rows(&backlog.take_next(TokenId(5))), (4, vec![(5, 4.0)]));
    }

    #[test]
    fn another_token_than_the_drafted_from_is_taken_in() {
        let mut backlog = pushed(&[1, 2]);
        backlog.take(9);
        backlog.take_next(TokenId(3));
        push(&mut backlog, 7);
        assert_eq!(rows(&backlog.take(9)), (2, vec![(7, 2.0)]));
    }

    #[test]
    fn an_unused_draft_can_be_repeated() {
        let mut backlog = pushed(&[1, 2]);
        backlog.take(9);
        backlog.take_next(TokenId(3));
        assert_eq!(rows(&backlog.take_next(TokenId(3))), (2, vec![(3, 2.0)]));
    }

    #[test]
    fn cut_back_into_its_cells_a_slot_computes_one_token_again() {
        let mut backlog = pushed(&[1, 2, 3, 4]);
        backlog.take(usize::MAX);
        assert_eq!(backlog.trim_for_drafts(2), 1);
        assert!(!backlog.can_draft() || backlog.end() == 1);
        // The token at position 1 is in the draft context already.
        push(&mut backlog, 2);
        push(&mut backlog, 5);
        assert_eq!(rows(&backlog.take(9)), (2, vec![(5, 2.0)]));
        assert!(backlog.can_draft());
    }

    #[test]
    fn cut_back_twice_it_computes_one_more() {
        let mut backlog = pushed(&[1, 2, 3, 4]);
        backlog.take(usize::MAX);
        assert_eq!(backlog.trim_for_drafts(3), 2);
        assert_eq!(backlog.trim_for_drafts(2), 1);
        push(&mut backlog, 2);
        push(&mut backlog, 6);
        assert_eq!(rows(&backlog.take(9)), (2, vec![(6, 2.0)]));
    }

    #[test]
    fn cut_back_into_what_waits_nothing_is_computed_again() {
        let mut backlog = pushed(&[1, 2, 3, 4]);
        backlog.take(1);
        assert_eq!(backlog.trim_for_drafts(3), 3);
        assert_eq!(rows(&backlog.take(9)), (1, vec![(2, 1.0), (3, 2.0)]));
        assert_eq!(rows(&backlog.take_next(TokenId(8))), (3, vec![(8, 3.0)]));
    }

    #[test]
    fn a_slot_that_was_not_followed_never_drafts_until_it_is_empty() {
        let mut backlog = Backlog::unknown(1, 3);
        push(&mut backlog, 4);
        assert!(!backlog.can_draft());
        assert_eq!((backlog.len(), backlog.trim_for_drafts(2)), (0, 2));
        backlog.trim(0);
        push(&mut backlog, 1);
        assert!(backlog.can_draft());
    }

    #[test]
    fn trimmed_where_the_row_is_not_known_it_goes_on_undrafted() {
        let mut backlog = pushed(&[1, 2, 3]);
        backlog.take(usize::MAX);
        backlog.trim(2);
        push(&mut backlog, 5);
        assert!(!backlog.can_draft());
    }
}
