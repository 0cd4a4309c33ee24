//! Constraints: which tokens may come next, so that the output becomes a document of a JSON Schema, a
//! match of a regular expression or a text of a grammar.
//!
//! The rules are llguidance's. A [`Compiler`] belongs to a model and compiles a specification once; a
//! [`Constraint`] is the state of one sequence. Everything that goes wrong inside llguidance, panics
//! included, ends the request: a constraint that broke is never taken off.
//!
//! - `environment`: the vocabulary for llguidance. Control tokens match no text; all tokens that end a
//!   generation are known; forced text becomes the tokens that the model would see.
//! - `compile`, `schema`: from a specification to a `grammar`, within bounds, with a `cache`.
//! - `refusal`: a refusal in the client's terms. `document`: the full check of what was written.
//! - `rescue`: how any text is completed.
//!
//! Measured with `SmolLM2`'s vocabulary of 49,152 tokens on the schemas of the tests, two busy cores: a mask
//! takes 17 us (mean; p99 130 us, at most 13 ms), a token 3 us (p99 36 us), a fresh state of a compiled
//! grammar 7 us; the vocabulary's environment and factories 0.2 s, once.

mod cache;
mod compile;
mod document;
mod environment;
mod grammar;
mod limits;
mod refusal;
mod rescue;
mod schema;

pub(crate) use compile::Compiler;

use std::sync::Arc;

use llguidance::Matcher;
use llguidance::toktrie::SimpleVob;

use crate::error::Error;
use crate::ids::TokenId;
use grammar::{Grammar, guarded};
use limits::{MAX_LEN, MAX_LEN_OF_MULTIPLES, Place};
use rescue::ByteMatcher;

/// A set of tokens, one bit for each token of the vocabulary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mask(SimpleVob);

impl Mask {
    /// Whether the token is in the set.
    #[cfg(test)]
    pub(crate) fn allows(&self, token: TokenId) -> bool {
        usize::try_from(token.0).is_ok_and(|id| id < self.0.len() && self.0.get(id))
    }

    /// The set as words: token `i` is bit `i % 32` of word `i / 32`.
    pub(crate) fn words(&self) -> &[u32] {
        self.0.as_slice()
    }
}

/// What one sequence has written so far, and what may come next.
pub(crate) struct Constraint {
    grammar: Arc<Grammar>,
    matcher: Matcher,
    /// The text so far.
    text: Vec<u8>,
    place: Place,
    /// For each consumed token the text's length and place before it.
    starts: Vec<(usize, Place)>,
    /// How many of the last tokens end the generation; they are no part of the text.
    num_ends: usize,
    mask: Option<Mask>,
    /// The same state byte by byte, made when a tail is first asked for.
    bytes: Option<ByteMatcher>,
    /// Bytes of the text that it has followed.
    num_followed: usize,
    has_failed: bool,
}

impl Constraint {
    fn new(grammar: Arc<Grammar>) -> Result<Self, Error> {
        let matcher = grammar.fresh_matcher()?;
        Ok(Self {
            grammar,
            matcher,
            text: Vec::new(),
            place: Place::default(),
            starts: Vec::new(),
            num_ends: 0,
            mask: None,
            bytes: None,
            num_followed: 0,
            has_failed: false,
        })
    }

    /// Whether the text is a JSON document.
    pub(crate) fn is_json(&self) -> bool {
        self.grammar.is_json()
    }

    /// Tokens of the shortest known document, without one that ends the generation.
    pub(crate) fn num_minimum_tokens(&self) -> Option<usize> {
        self.grammar.witness().map(<[u32]>::len)
    }

    /// The tokens that may come next; those that end the generation are among them exactly where the
    /// text may end.
    ///
    /// # Errors
    /// [`Error::ConstraintFailed`], from then on for good.
    pub(crate) fn mask(&mut self) -> Result<&Mask, Error> {
        let mask = match self.mask.take() {
            Some(mask) => mask,
            None => self.compute_mask()?,
        };
        Ok(self.mask.insert(mask))
    }

    fn compute_mask(&mut self) -> Result<Mask, Error> {
        self.check()?;
        let mut mask = self.grammar.no_tokens();
        let may_end = self.is_finished() || self.is_complete();
        if !self.is_finished() {
            let allowed = guarded(|| self.matcher.compute_mask());
            mask = allowed.map_err(|_| self.fail("no token can continue the text"))?;
            mask.and(self.grammar.environment().text_tokens());
            if self.is_json() {
                let max_len = if self.grammar.has_multiples() { MAX_LEN_OF_MULTIPLES } else { MAX_LEN };
                self.grammar.environment().limited().restrict(&mut mask, &self.place, max_len, may_end);
            }
        }
        if may_end {
            for end in self.grammar.environment().end_tokens() {
                mask.allow_token(end);
            }
        } else if mask.is_zero() {
            return Err(self.fail("no token can continue the text"));
        }
        Ok(Mask(mask))
    }

    /// Takes a token.
    ///
    /// # Errors
    /// [`Error::ConstraintFailed`] if it may not come next, from then on for good.
    pub(crate) fn consume(&mut self, token: TokenId) -> Result<(), Error> {
        self.check()?;
        let environment = self.grammar.environment();
        if environment.is_end(token) {
            if !(self.is_finished() || self.is_complete()) {
                return Err(self.fail("the text may not end here"));
            }
            self.num_ends += 1;
        } else {
            let id = u32::try_from(token.0).ok().filter(|&id| !environment.bytes(id).is_empty());
            let bytes = id.map(|id| environment.bytes(id).to_vec()).unwrap_or_default();
            let is_taken = match id {
                Some(id) if !self.is_finished() => guarded(|| self.matcher.consume_token(id)).is_ok(),
                Some(_) | None => false,
            };
            if !is_taken {
                return Err(self.fail("a token that may not come next"));
            }
            self.starts.push((self.text.len(), self.place));
            self.place.advance(&bytes);
            self.text.extend(bytes);
        }
        self.mask = None;
        Ok(())
    }

    /// Takes the last `n` tokens back.
    ///
    /// # Errors
    /// [`Error::ConstraintFailed`] if that is more than there are, or if the constraint has failed.
    pub(crate) fn rollback(&mut self, n: usize) -> Result<(), Error> {
        self.check()?;
        if n == 0 {
            return Ok(());
        }
        let num_ends = n.min(self.num_ends);
        let n = n - num_ends;
        let Some(num_left) = self.starts.len().checked_sub(n) else {
            return Err(self.fail("more tokens taken back than there were"));
        };
        if n > 0 && guarded(|| self.matcher.rollback(n)).is_err() {
            return Err(self.fail("tokens could not be taken back"));
        }
        // llguidance keeps a mask by row and lexer state, which another text may share.
        self.matcher.invalidate_bias_cache();
        self.num_ends -= num_ends;
        if let Some(&(start, place)) = self.starts.get(num_left) {
            self.text.truncate(start);
            self.place = place;
        }
        self.starts.truncate(num_left);
        self.mask = None;
        let surplus = self.num_followed.saturating_sub(self.text.len());
        if surplus > 0 {
            self.num_followed -= surplus;
            let mut bytes = self.bytes.take();
            self.bytes = bytes.take_if(|bytes| bytes.rollback(surplus));
        }
        Ok(())
    }

    /// The tokens that must come next whatever the model says. They are not consumed.
    pub(crate) fn forced(&mut self) -> Vec<TokenId> {
        if self.check().is_err() || self.is_finished() {
            return Vec::new();
        }
        let tokens = guarded(|| Ok(self.matcher.compute_ff_tokens())).unwrap_or_default();
        let mut tokens: Vec<TokenId> = tokens.into_iter().map(|id| TokenId(id as i32)).collect();
        tokens.truncate(self.num_valid(&tokens));
        tokens
    }

    /// How many of the tokens, from the first, may come next.
    pub(crate) fn num_valid(&mut self, draft: &[TokenId]) -> usize {
        if self.check().is_err() {
            return 0;
        }
        let environment = self.grammar.environment();
        if self.is_finished() {
            return usize::from(draft.first().is_some_and(|&token| environment.is_end(token)));
        }
        let known = |token: &TokenId| {
            let id = u32::try_from(token.0).ok()?;
            (environment.is_end(*token) || !environment.bytes(id).is_empty()).then_some(id)
        };
        let ids: Vec<u32> = draft.iter().map_while(known).collect();
        guarded(|| self.matcher.validate_tokens(&ids)).unwrap_or(0)
    }

    /// Whether the text so far is a whole document. More may follow, as after the number 1.
    pub(crate) fn is_complete(&mut self) -> bool {
        self.check().is_ok()
            && (self.is_finished() || guarded(|| self.matcher.is_accepting()).unwrap_or(false))
    }

    /// Whether nothing may follow.
    pub(crate) fn is_finished(&self) -> bool {
        self.num_ends > 0 || (!self.has_failed && !self.matcher.is_error() && self.matcher.is_stopped())
    }

    /// The shortest tokens that were found to complete the text; none where it is complete. `None`: none
    /// were found.
    pub(crate) fn tail(&mut self) -> Option<Vec<TokenId>> {
        if self.is_complete() {
            return Some(Vec::new());
        }
        self.check().ok()?;
        if self.text.is_empty()
            && let Some(witness) = self.grammar.witness()
        {
            return Some(witness.iter().map(|&id| TokenId(id as i32)).collect());
        }
        let mut bytes = self.follow()?;
        let text = self.grammar.find_tail(&mut bytes, &self.text);
        if !bytes.is_broken() {
            self.num_followed = self.text.len();
            self.bytes = Some(bytes);
        }
        let tokens = self.grammar.environment().tokenize(&text?);
        let is_whole = self.grammar.completes(&mut self.matcher, &tokens);
        is_whole.then(|| tokens.into_iter().map(|id| TokenId(id as i32)).collect())
    }

    /// The state of the text byte by byte.
    fn follow(&mut self) -> Option<ByteMatcher> {
        let (mut bytes, start) = match self.bytes.take() {
            Some(bytes) => (bytes, self.num_followed),
            None => (self.grammar.fresh_bytes().ok()?, 0),
        };
        bytes.feed(&self.text[start..]).then_some(bytes)
    }

    /// Whether after this token no text would be a valid document, though the token is allowed: a number
    /// beyond what a double holds, or too few members since a name came twice.
    pub(crate) fn spoils(&self, token: TokenId) -> bool {
        let bytes = u32::try_from(token.0).map(|id| self.grammar.environment().bytes(id)).unwrap_or_default();
        !bytes.is_empty() && self.grammar.spoils(&[&self.text, bytes].concat())
    }

    /// The largest number of tokens by which one more token may lengthen the tail: an estimate.
    pub(crate) fn max_tail_growth(&self) -> usize {
        self.grammar.max_tail_growth()
    }

    /// The full check of the text so far: a JSON document is parsed and validated against the schema.
    ///
    /// # Errors
    /// [`Error::ConstraintFailed`] if it is no document of the constraint.
    pub(crate) fn check_document(&mut self) -> Result<(), Error> {
        if !self.is_complete() {
            return Err(Error::ConstraintFailed { reason: "the text is not a whole document" });
        }
        self.grammar.check_document(&self.text)
    }

    fn check(&self) -> Result<(), Error> {
        if self.has_failed || self.matcher.is_error() {
            return Err(Error::ConstraintFailed { reason: "it had failed before" });
        }
        Ok(())
    }

    fn fail(&mut self, reason: &'static str) -> Error {
        self.has_failed = true;
        self.mask = None;
        Error::ConstraintFailed { reason }
    }
}

#[cfg(test)]
mod tests;
