//! A sequence's constraint, and the *rescue tail* that keeps its document whole within a budget of
//! tokens.
//!
//! A tail is a list of tokens that completes the document from where it is. At the start it is a
//! shortest document, which the budget is known to hold. A sampled token whose own tail would not fit
//! into what is left is not taken: the tail of the state before it is emitted instead, without
//! decoding, and the document ends. So by induction a tail that fits exists at every token.
//!
//! A tail is looked for only when it could matter. One more token makes it longer by at most
//! [`Constraint::max_tail_growth`], so after each look the next so many tokens need none.

use crate::constraint::{Constraint, Mask};
use crate::error::Error;
use crate::ids::TokenId;

/// Where no tail is found, so many times what the tail may need is left before the last known one is
/// taken.
const RESERVE_FACTOR: usize = 4;

/// After a search that found no tail, the next one comes when this share of what was left is used up.
const LOOKS_WITHOUT_TAIL: usize = 8;

/// The constraint of one sequence.
pub(crate) struct Constrained {
    constraint: Constraint,
    /// Completes the document from its present state, if it is known.
    tail: Option<Vec<TokenId>>,
    /// So many tokens may follow before the tail must be looked for.
    num_unchecked: usize,
}

/// What becomes of a sampled token.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// It stands, and the constraint has moved on.
    Token,
    /// These tokens take its place and complete the document; the constraint has moved to the end.
    Tail(Vec<TokenId>),
}

impl Constrained {
    /// At the start of the output, of which there may be `budget` tokens.
    ///
    /// # Errors
    /// [`Error::BudgetTooSmall`] if the budget does not hold the shortest document.
    pub(crate) fn new(mut constraint: Constraint, budget: usize) -> Result<Self, Error> {
        if let Some(minimum) = constraint.num_minimum_tokens()
            && minimum > budget
        {
            return Err(Error::BudgetTooSmall { minimum, budget });
        }
        let tail = constraint.tail();
        let mut new = Self { constraint, tail: None, num_unchecked: 0 };
        if let Some(tail) = tail {
            new.keep_tail(tail, budget);
        }
        Ok(new)
    }

    /// The tokens that may come next.
    pub(crate) fn mask(&mut self) -> Result<&Mask, Error> {
        self.constraint.mask()
    }

    pub(crate) fn is_json(&self) -> bool {
        self.constraint.is_json()
    }

    /// How many tokens of a draft, from the first, may come next.
    pub(crate) fn num_valid(&mut self, draft: &[TokenId]) -> usize {
        self.constraint.num_valid(draft)
    }

    /// Whether nothing may follow.
    pub(crate) fn is_finished(&self) -> bool {
        self.constraint.is_finished()
    }

    /// Whether the text so far is a whole document.
    pub(crate) fn is_complete(&mut self) -> bool {
        self.constraint.is_complete()
    }

    /// The full check of the document so far.
    pub(crate) fn check_document(&mut self) -> Result<(), Error> {
        self.constraint.check_document()
    }

    /// Takes a sampled token that the mask allows, or, where no document could come of it, what completes
    /// the document instead. `left` is the number of tokens that may still be generated, this one included.
    pub(crate) fn settle(&mut self, sampled: TokenId, left: usize) -> Result<Settled, Error> {
        let is_spoiled = self.constraint.spoils(sampled);
        if is_spoiled {
            self.num_unchecked = 0;
        }
        let before = self.tail_before(left);
        self.constraint.consume(sampled)?;
        if !is_spoiled && self.fits_after(&[sampled], before.as_deref(), left.saturating_sub(1)) {
            return Ok(Settled::Token);
        }
        match before {
            Some(tail) => {
                self.constraint.rollback(1)?;
                self.follow(&tail)?;
                Ok(Settled::Tail(tail))
            }
            // Nothing better is known: a later token may still complete it.
            None => Ok(Settled::Token),
        }
    }

    /// Takes the tokens that must come next whatever the model says, as many as leave room for a tail.
    pub(crate) fn take_forced(&mut self, left: usize) -> Result<Vec<TokenId>, Error> {
        let forced = self.constraint.forced();
        if forced.is_empty() || forced.len() > left {
            return Ok(Vec::new());
        }
        let before = self.tail_before(left);
        for &token in &forced {
            self.constraint.consume(token)?;
        }
        if self.fits_after(&forced, before.as_deref(), left - forced.len()) {
            return Ok(forced);
        }
        // Other tokens may spell the same text in fewer: the model chooses.
        self.constraint.rollback(forced.len())?;
        self.tail = before;
        Ok(Vec::new())
    }

    /// Completes the document now: the tokens for that, at most `left`; `None` if none are known.
    pub(crate) fn close(&mut self, left: usize) -> Option<Vec<TokenId>> {
        let tail = self.tail.take().or_else(|| self.constraint.tail())?;
        (tail.len() <= left && self.follow(&tail).is_ok()).then_some(tail)
    }

    fn follow(&mut self, tail: &[TokenId]) -> Result<(), Error> {
        self.tail = None;
        tail.iter().try_for_each(|&token| self.constraint.consume(token))
    }

    /// The tail of the present state, where the next token's has to be looked for.
    fn tail_before(&mut self, left: usize) -> Option<Vec<TokenId>> {
        let known = self.tail.take();
        if self.num_unchecked > 0 {
            return None;
        }
        known.or_else(|| self.constraint.tail()).filter(|tail| tail.len() <= left)
    }

    /// Whether the document can still be completed with `left` tokens after `taken`.
    fn fits_after(&mut self, taken: &[TokenId], before: Option<&[TokenId]>, left: usize) -> bool {
        if self.num_unchecked >= taken.len() {
            self.num_unchecked -= taken.len();
            return true;
        }
        self.num_unchecked = 0;
        let rest = before.and_then(|tail| tail.strip_prefix(taken)).map(<[TokenId]>::to_vec);
        match rest.or_else(|| self.constraint.tail()) {
            Some(tail) if tail.len() <= left => {
                self.keep_tail(tail, left);
                true
            }
            Some(_) => false,
            None => {
                let needed = before.map_or(0, <[TokenId]>::len) + self.growth();
                // Nothing is promised of a grammar, whose tails are searched without knowing it.
                let goes_on = !self.is_json() || left > RESERVE_FACTOR * needed;
                if goes_on {
                    // A search that fails is the dearest: the next one has a while.
                    self.num_unchecked = left / LOOKS_WITHOUT_TAIL;
                }
                goes_on
            }
        }
    }

    fn keep_tail(&mut self, tail: Vec<TokenId>, left: usize) {
        // After n tokens the tail has at most `len + n * growth`, and `left - n` are left.
        self.num_unchecked = left.saturating_sub(tail.len()) / (1 + self.growth());
        self.tail = Some(tail);
    }

    fn growth(&self) -> usize {
        self.constraint.max_tail_growth().max(1)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::constraint::Compiler;
    use crate::model::fake::FakeVocabulary;
    use crate::request::ConstraintSpec;

    fn start(compiler: &Compiler, schema: &str, budget: usize) -> Result<Constrained, Error> {
        let constraint = compiler.compile(&ConstraintSpec::JsonSchema(schema.to_owned()))?;
        Constrained::new(constraint, budget)
    }

    /// A token of the mask, by a number that stands for the model's choice.
    fn choose(constrained: &mut Constrained, choice: usize) -> TokenId {
        let mask = constrained.mask().unwrap();
        let allowed: Vec<i32> = (0..257).filter(|&id| mask.allows(TokenId(id))).collect();
        TokenId(allowed[choice % allowed.len()])
    }

    /// Writes a document with arbitrary choices; its tokens, and whether it ended before its budget did.
    fn write(mut constrained: Constrained, budget: usize, seed: usize) -> (usize, bool) {
        let mut len = 0;
        let mut state = seed;
        while len < budget {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let sampled = choose(&mut constrained, state >> 33);
            match constrained.settle(sampled, budget - len).unwrap() {
                Settled::Token => len += 1,
                Settled::Tail(tail) => {
                    len += tail.len();
                    constrained.check_document().unwrap();
                    return (len, false);
                }
            }
            if constrained.is_finished() {
                break;
            }
            len += constrained.take_forced(budget - len).unwrap().len();
            if constrained.is_finished() {
                break;
            }
        }
        constrained.check_document().unwrap();
        (len, constrained.is_finished())
    }

    #[test]
    fn a_document_is_whole_at_the_end_of_every_budget() {
        let compiler = Compiler::new(Arc::new(FakeVocabulary));
        for schema in [
            "true",
            r#"{"enum": ["a", "a much longer value", false]}"#,
            r#"{"type": "array", "items": {"type": "string"}, "minItems": 2}"#,
            r##"{"properties": {"next": {"$ref": "#"}, "v": {"type": "integer"}}, "required": ["v"], "type": "object"}"##,
            r#"{"anyOf": [{"const": 1}, {"const": "one hundred and twenty seven characters are not many"}]}"#,
        ] {
            let Err(Error::BudgetTooSmall { minimum, budget: 0 }) = start(&compiler, schema, 0).map(drop)
            else {
                panic!("{schema} has a document without tokens");
            };
            let mut num_cut = 0;
            for budget in (minimum..minimum + 24).chain([minimum + 100]) {
                for seed in 0..20 {
                    let (len, has_ended) = write(start(&compiler, schema, budget).unwrap(), budget, seed);
                    assert!(len <= budget, "{len} of {budget} tokens for {schema}");
                    num_cut += usize::from(!has_ended);
                }
            }
            assert!(num_cut > 0, "no budget ever mattered for {schema}");
        }
    }

    #[test]
    fn forced_tokens_come_without_a_choice() {
        let compiler = Compiler::new(Arc::new(FakeVocabulary));
        let schema = r#"{"properties": {"name": {"type": "boolean"}}, "required": ["name"], "additionalProperties": false, "type": "object"}"#;
        let mut constrained = start(&compiler, schema, 100).unwrap();
        let first = choose(&mut constrained, 0);
        assert_eq!(constrained.settle(first, 100).unwrap(), Settled::Token);
        let forced: Vec<u8> =
            constrained.take_forced(99).unwrap().iter().map(|token| token.0 as u8).collect();
        assert_eq!(String::from_utf8(forced).unwrap(), "\"name\":");
    }

    #[test]
    fn what_was_begun_can_be_closed_at_once() {
        let compiler = Compiler::new(Arc::new(FakeVocabulary));
        let mut constrained = start(&compiler, r#"{"type": "array"}"#, 100).unwrap();
        for (left, byte) in (90..=100).rev().zip(b"[[\"a") {
            assert_eq!(constrained.settle(TokenId(i32::from(*byte)), left).unwrap(), Settled::Token);
        }
        assert_eq!(constrained.close(2), None);
        let mut constrained = start(&compiler, r#"{"type": "array"}"#, 100).unwrap();
        for byte in b"[[\"a" {
            constrained.settle(TokenId(i32::from(*byte)), 100).unwrap();
        }
        assert_eq!(constrained.close(3).map(|tail| tail.len()), Some(3));
        constrained.check_document().unwrap();
    }
}
