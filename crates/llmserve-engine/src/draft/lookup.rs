//! Drafts from the text itself: what followed the last tokens when they occurred before.

use super::{Drafter, MAX_DRAFT_TOKENS};
use crate::ids::TokenId;

/// Tokens that must occur before for a guess. A match of two is right half as often as one of four, but a
/// wrong draft is cheap beside a missed one, and the controller drops a text on which they fail.
const MIN_MATCH: usize = 2;
/// Tokens that a match is compared over; a longer one is no better.
const MAX_MATCH: usize = 16;
/// Earlier occurrences that are compared, from the last.
const MAX_CANDIDATES: usize = 32;
/// Tokens before the end that may have been taken back and replaced since the last call.
const MAX_ROLLBACK: usize = 64;
/// No position.
const NONE: u32 = u32::MAX;

/// Drafts by prompt lookup.
///
/// All positions after the same two tokens are chained from the last to the first, as in the string search of
/// deflate (RFC 1951, section 4), so a token is entered in constant time, and a guess compares a bounded number of places,
/// whatever the length of the text. It takes 12 to 20 bytes a token.
#[derive(Debug)]
pub(crate) struct PromptLookup {
    /// The text as entered.
    tokens: Vec<TokenId>,
    /// For each position, the position before it in its chain.
    previous: Vec<u32>,
    /// For each chain its last position. A power of two of them.
    last: Vec<u32>,
}

impl PromptLookup {
    pub(crate) fn new() -> Self {
        Self { tokens: Vec::new(), previous: Vec::new(), last: Vec::new() }
    }

    /// Brings the index to this text, which goes on from that of the last call but for its last tokens.
    fn follow(&mut self, tokens: &[TokenId]) {
        let common = self.tokens.len().min(tokens.len());
        let from = common.saturating_sub(MAX_ROLLBACK);
        let equal = self.tokens[from..common].iter().zip(&tokens[from..]).take_while(|(a, b)| a == b).count();
        while self.tokens.len() > from + equal {
            self.pop();
        }
        if tokens.len() > self.last.len() {
            self.grow(tokens.len());
        }
        for &token in &tokens[self.tokens.len()..] {
            self.push(token);
        }
    }

    fn push(&mut self, token: TokenId) {
        self.tokens.push(token);
        let chain = self.chain();
        let position = self.tokens.len() as u32;
        self.previous.push(chain.map_or(NONE, |chain| std::mem::replace(&mut self.last[chain], position)));
    }

    fn pop(&mut self) {
        let previous = self.previous.pop();
        if let (Some(chain), Some(previous)) = (self.chain(), previous) {
            self.last[chain] = previous;
        }
        self.tokens.pop();
    }

    /// The chain of the position after the last token.
    fn chain(&self) -> Option<usize> {
        self.tokens.last_chunk::<MIN_MATCH>().map(|&last| chain_of(last, self.last.len()))
    }

    /// Makes room for a text of this length, with chains of about one different pair each.
    fn grow(&mut self, num_tokens: usize) {
        self.last = vec![NONE; num_tokens.next_power_of_two().max(64)];
        for (index, pair) in self.tokens.windows(MIN_MATCH).enumerate() {
            let position = index + MIN_MATCH;
            let chain = pair.first_chunk::<MIN_MATCH>().map_or(0, |&pair| chain_of(pair, self.last.len()));
            self.previous[position - 1] = std::mem::replace(&mut self.last[chain], position as u32);
        }
    }

    /// The position after the longest match of the last tokens; of equal ones the last.
    fn best_match(&self) -> Option<usize> {
        let end = self.tokens.len();
        let mut position = *self.previous.last()?;
        let (mut best, mut best_len) = (None, MIN_MATCH - 1);
        for _ in 0..MAX_CANDIDATES {
            if position == NONE {
                break;
            }
            let place = position as usize;
            let before = self.tokens[..place].iter().rev();
            let len = before
                .zip(self.tokens[..end].iter().rev())
                .take(MAX_MATCH)
                .take_while(|(a, b)| a == b)
                .count();
            if len > best_len {
                (best, best_len) = (Some(place), len);
            }
            if len == MAX_MATCH {
                break;
            }
            position = self.previous[place - 1];
        }
        best
    }
}

impl Drafter for PromptLookup {
    fn draft(&mut self, tokens: &[TokenId], max: usize) -> Vec<TokenId> {
        self.follow(tokens);
        let Some(start) = self.best_match() else {
            return Vec::new();
        };
        let mut draft = Vec::with_capacity(max.min(MAX_DRAFT_TOKENS));
        for index in start..start + max.min(MAX_DRAFT_TOKENS) {
            // A match that reaches to the end goes on with the draft: a text that repeats itself.
            let token = match index.checked_sub(tokens.len()) {
                None => tokens[index],
                Some(drafted) => draft[drafted],
            };
            draft.push(token);
        }
        draft
    }
}

/// The chain of two tokens, by multiplicative hashing.
fn chain_of(pair: [TokenId; MIN_MATCH], num_chains: usize) -> usize {
    let [first, second] = pair.map(|token| u64::from(token.0 as u32));
    let mixed = (first << 32 | second).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (64 - num_chains.trailing_zeros())) as usize
}
