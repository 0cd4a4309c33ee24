//! How a text can be completed: the matcher seen byte by byte, and a search over it.

use std::sync::Arc;

use llguidance::Matcher;
use llguidance::toktrie::{ApproximateTokEnv, INVALID_TOKEN, TokEnv, TokRxInfo, TokTrie};

use super::grammar::guarded;
use crate::error::Error;

/// The most bytes that a search adds.
const FUEL: usize = 2048;

/// The state of a text with bytes as tokens.
pub(super) struct ByteMatcher {
    matcher: Matcher,
    /// Bytes that it has consumed.
    len: usize,
}

impl ByteMatcher {
    pub(super) fn new(matcher: Matcher) -> Self {
        Self { matcher, len: 0 }
    }

    /// A vocabulary of bytes. It is not a canonical one, so that llguidance does not tokenize forced bytes
    /// for each mask.
    pub(super) fn environment() -> TokEnv {
        let words: Vec<Vec<u8>> = (0..=u8::MAX).map(|byte| vec![byte]).collect();
        let trie = TokTrie::from(&TokRxInfo::new(256, INVALID_TOKEN), &words);
        Arc::new(ApproximateTokEnv::new(trie))
    }

    pub(super) fn deep_clone(&self) -> Result<Self, Error> {
        guarded(|| Ok(Self { matcher: self.matcher.deep_clone(), len: self.len })).map_err(|_| failed())
    }

    /// Follows a text of which it has consumed the beginning.
    pub(super) fn advance(&mut self, text: &[u8]) -> Result<(), Error> {
        let new = text.get(self.len..).ok_or_else(failed)?;
        self.push(new)
    }

    /// Follows the text back to this length.
    pub(super) fn truncate(&mut self, len: usize) -> Result<(), Error> {
        let n = self.len.saturating_sub(len);
        if n == 0 {
            return Ok(());
        }
        guarded(|| self.matcher.rollback(n)).map_err(|_| failed())?;
        self.matcher.invalidate_bias_cache();
        self.len -= n;
        Ok(())
    }

    /// A text that completes the present one. The state stays as it is.
    ///
    /// This is the place of the search that knows the schema; this one goes by a fixed order of bytes.
    pub(super) fn find_tail(&mut self, text: &[u8], is_json: bool) -> Option<Vec<u8>> {
        let start = self.len;
        let tail = self.greedy_tail(text, is_json);
        self.truncate(start).ok()?;
        tail
    }

    fn greedy_tail(&mut self, text: &[u8], is_json: bool) -> Option<Vec<u8>> {
        let mut string = StringState::default();
        text.iter().for_each(|&byte| string.advance(byte));
        let mut tail = Vec::new();
        while !self.is_complete() {
            if tail.len() >= FUEL {
                return None;
            }
            let mut forced = guarded(|| Ok(self.matcher.compute_ff_bytes())).ok()?;
            if !forced.is_empty() {
                forced.truncate(FUEL - tail.len());
                self.push(&forced).ok()?;
                forced.iter().for_each(|&byte| string.advance(byte));
                tail.extend(forced);
                continue;
            }
            let allowed = self.allowed()?;
            let first: &[u8] = if is_json && string.is_inside { b"\"" } else { b"}],:" };
            let mut order = first.iter().copied().chain(0..=u8::MAX);
            let byte = order.find(|&byte| allowed[usize::from(byte)])?;
            self.push(&[byte]).ok()?;
            string.advance(byte);
            tail.push(byte);
        }
        Some(tail)
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let tokens: Vec<u32> = bytes.iter().map(|&byte| u32::from(byte)).collect();
        guarded(|| self.matcher.consume_tokens(&tokens)).map_err(|_| failed())?;
        self.len += bytes.len();
        Ok(())
    }

    fn is_complete(&mut self) -> bool {
        guarded(|| self.matcher.is_accepting()).unwrap_or(false)
    }

    fn allowed(&mut self) -> Option<[bool; 256]> {
        let mask = guarded(|| self.matcher.compute_mask()).ok()?;
        Some(std::array::from_fn(|byte| mask.get(byte)))
    }
}

fn failed() -> Error {
    Error::ConstraintFailed { reason: "the text cannot be followed byte by byte" }
}

/// Whether a JSON text ends inside a string.
#[derive(Default)]
struct StringState {
    is_inside: bool,
    is_escaped: bool,
}

impl StringState {
    fn advance(&mut self, byte: u8) {
        if self.is_escaped {
            self.is_escaped = false;
        } else if self.is_inside && byte == b'\\' {
            self.is_escaped = true;
        } else if byte == b'"' {
            self.is_inside = !self.is_inside;
        }
    }
}
