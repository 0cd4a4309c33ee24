//! The *rescue tail*, which keeps a sequence's document whole within a budget of tokens.
//!
//! A tail is a list of tokens that completes the document from where it is. At the start it is a
//! shortest document, which is known to fit into the budget. A sampled token whose own tail would not fit
//! into what is left is not taken: the tail of the state before it is emitted instead, without
//! decoding, and the document ends. So by induction a tail that fits exists at every token.
//!
//! A tail is looked for only when it could matter. One more token makes it longer by at most
//! [`Grammar::max_tail_growth`], so after each look some of the next tokens need none. A look that takes
//! long is interrupted: the token waits ([`Settled::Later`]) while others go on, and since the search is
//! bounded by what it asks, not by time, its result does not depend on the machine. For other texts than JSON, of which
//! nothing is promised, ends of the tail that was known last are tried before a search.

mod look;

use llmserve_json_tail::Search;
use look::{Look, to_ids};

use super::byte_matcher::ByteMatcher;
use super::grammar::Grammar;
use super::state::Constraint;
use crate::error::Error;
use crate::ids::TokenId;

/// If no tail is found, this many times what the tail may need is left before the last known one is
/// taken.
const RESERVE_FACTOR: usize = 4;

/// After a search that found no tail, the next one comes when this share of what was left is used up.
const LOOKS_WITHOUT_TAIL: usize = 8;

/// What becomes of a sampled token.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// The token stands, and the constraint has moved on.
    Token,
    /// These tokens take its place and complete the document; the constraint has moved to the end.
    Tail(Vec<TokenId>),
    /// The outcome is not known yet: [`Constraint::settle_on`].
    Later,
}

/// What is known about ways to complete the text.
pub(super) struct Rescue {
    /// Completes the document from its present state, if it is known.
    tail: Option<Vec<TokenId>>,
    /// How many tokens may follow before the tail must be looked for.
    num_unchecked: usize,
    /// The sampled token that waits for a search.
    settling: Option<Settling>,
    /// The result of a look at the present state.
    look: Option<Look>,
    /// A search that was interrupted, and the length of the text that it began at.
    search: Option<(Search, usize)>,
    /// The state byte by byte, made when it is first searched, and the bytes of the text that it has
    /// followed.
    bytes: Option<ByteMatcher>,
    num_followed: usize,
    /// The tail that was found last; its end often completes later states of a grammar as well.
    latest: Vec<TokenId>,
    /// Searches for an end of a text other than JSON that found nothing: the more, the less the next one may ask.
    num_failures: usize,
}

struct Settling {
    sampled: TokenId,
    left: usize,
    is_spoiled: bool,
    /// The tail of the state before it is known, if there is one, and the constraint has moved on.
    is_consumed: bool,
    before: Option<Vec<TokenId>>,
}

impl Rescue {
    pub(super) fn new(grammar: &Grammar, budget: usize) -> Self {
        let mut new = Self {
            tail: None,
            num_unchecked: 0,
            settling: None,
            look: None,
            search: None,
            bytes: None,
            num_followed: 0,
            latest: Vec::new(),
            num_failures: 0,
        };
        if let Some(witness) = grammar.witness() {
            new.keep(to_ids(witness), budget, grammar.max_tail_growth());
        }
        new
    }

    /// The text has been cut to `len` bytes.
    pub(super) fn cut(&mut self, len: usize) {
        let surplus = self.num_followed.saturating_sub(len);
        if surplus > 0 {
            self.num_followed -= surplus;
            let mut bytes = self.bytes.take();
            self.bytes = bytes.take_if(|bytes| bytes.rollback(surplus));
        }
        if self.bytes.is_none() {
            self.num_followed = 0;
        }
    }

    fn keep(&mut self, tail: Vec<TokenId>, left: usize, growth: usize) {
        // After n tokens the tail has at most `len + n * growth`, and `left - n` are left.
        self.num_unchecked = left.saturating_sub(tail.len()) / (1 + growth.max(1));
        self.latest.clone_from(&tail);
        self.tail = Some(tail);
    }
}

impl Constraint {
    /// Takes a sampled token that the mask allows, or, where no document could come of it, what completes
    /// the document instead. `left` is the number of tokens that may still be generated, this one included.
    pub(crate) fn settle(&mut self, sampled: TokenId, left: usize) -> Result<Settled, Error> {
        let is_spoiled = self.spoils(&[sampled]);
        // Among unique items a token may leave no others.
        if is_spoiled || self.is_among_unique() {
            self.rescue.num_unchecked = 0;
        }
        self.rescue.settling = Some(Settling { sampled, left, is_spoiled, is_consumed: false, before: None });
        self.settle_on()
    }

    /// Continues with the token that could not be settled at once.
    pub(crate) fn settle_on(&mut self) -> Result<Settled, Error> {
        let Some(mut settling) = self.rescue.settling.take() else {
            return Err(self.fail("there is no token to settle"));
        };
        let Settling { sampled, left, is_spoiled, .. } = settling;
        if !settling.is_consumed {
            let Look::Done(before) = self.tail_before(left) else {
                self.rescue.settling = Some(settling);
                return Ok(Settled::Later);
            };
            self.consume(sampled)?;
            settling = Settling { is_consumed: true, before, ..settling };
        }
        let before = settling.before.take();
        let fits = if is_spoiled {
            Some(false)
        } else {
            self.fits_after(&[sampled], before.as_deref(), left.saturating_sub(1))
        };
        match (fits, before) {
            (None, before) => {
                self.rescue.settling = Some(Settling { before, ..settling });
                Ok(Settled::Later)
            }
            // If nothing better is known, a later token may still complete it.
            (Some(true), _) | (Some(false), None) => Ok(Settled::Token),
            (Some(false), Some(tail)) => {
                self.rollback(1)?;
                self.follow(&tail)?;
                Ok(Settled::Tail(tail))
            }
        }
    }

    /// Uses time that nobody waits for: goes on with an interrupted search, or computes the next mask.
    ///
    /// # Errors
    /// The errors are those of [`Self::mask`].
    pub(crate) fn work_ahead(&mut self) -> Result<(), Error> {
        if self.rescue.settling.is_none() {
            return self.mask().map(|_| ());
        }
        self.look();
        Ok(())
    }

    /// Takes the tokens that must come next whatever the model says, as many as leave room for a tail.
    pub(crate) fn take_forced(&mut self, left: usize) -> Result<Vec<TokenId>, Error> {
        let forced = self.forced();
        if forced.is_empty() || forced.len() > left || self.is_among_unique() && self.spoils(&forced) {
            return Ok(Vec::new());
        }
        let Look::Done(before) = self.tail_before(left) else {
            return Ok(Vec::new());
        };
        for &token in &forced {
            self.consume(token)?;
        }
        if self.fits_after(&forced, before.as_deref(), left - forced.len()) == Some(true) {
            return Ok(forced);
        }
        // Other tokens may spell the same text in fewer: the model chooses.
        self.rollback(forced.len())?;
        self.rescue.tail = before;
        Ok(Vec::new())
    }

    /// Completes the document now: the tokens for that, at most `left`; `None` if none are known.
    pub(crate) fn close(&mut self, left: usize) -> Option<Vec<TokenId>> {
        if let Some(Settling { is_consumed: true, before, .. }) = self.rescue.settling.take() {
            self.rollback(1).ok()?;
            self.rescue.tail = before;
        }
        let tail = match self.rescue.tail.take() {
            Some(tail) => Look::Done(Some(tail)),
            // The client has gone: nobody waits for a longer search.
            None => self.look(),
        };
        let Look::Done(Some(tail)) = tail else { return None };
        (tail.len() <= left && self.follow(&tail).is_ok()).then_some(tail)
    }

    /// Whether after these tokens no text would be a valid document, though they are allowed.
    pub(super) fn spoils(&mut self, tokens: &[TokenId]) -> bool {
        self.forget_look();
        let environment = self.grammar.environment();
        let bytes = tokens.iter().filter_map(|token| Some(environment.bytes(u32::try_from(token.0).ok()?)));
        let bytes: Vec<u8> = bytes.flatten().copied().collect();
        self.written.walk().is_some_and(|walk| walk.spoils(&bytes))
    }

    pub(super) fn is_among_unique(&mut self) -> bool {
        self.written.walk().is_some_and(|walk| walk.is_among_unique())
    }

    fn follow(&mut self, tail: &[TokenId]) -> Result<(), Error> {
        self.rescue.tail = None;
        tail.iter().try_for_each(|&token| self.consume(token))
    }

    /// The tail of the present state, where the next token's has to be looked for.
    fn tail_before(&mut self, left: usize) -> Look {
        let known = self.rescue.tail.take();
        if self.rescue.num_unchecked > 0 {
            return Look::Done(None);
        }
        match known.map_or_else(|| self.look(), |tail| Look::Done(Some(tail))) {
            Look::Done(tail) => Look::Done(tail.filter(|tail| tail.len() <= left)),
            Look::Paused => Look::Paused,
        }
    }

    /// Whether the document can still be completed with `left` tokens after `taken`; `None` where that is
    /// not known yet.
    fn fits_after(&mut self, taken: &[TokenId], before: Option<&[TokenId]>, left: usize) -> Option<bool> {
        if self.rescue.num_unchecked >= taken.len() {
            self.rescue.num_unchecked -= taken.len();
            return Some(true);
        }
        self.rescue.num_unchecked = 0;
        let growth = self.grammar.max_tail_growth();
        let rest = before.and_then(|tail| tail.strip_prefix(taken)).map(<[TokenId]>::to_vec);
        let tail = match rest.map_or_else(|| self.look(), |rest| Look::Done(Some(rest))) {
            Look::Done(tail) => tail,
            Look::Paused => return None,
        };
        let Some(tail) = tail else {
            let needed = before.map_or(0, <[TokenId]>::len) + growth.max(1);
            // Nothing is promised of a grammar, whose tails are searched without knowing it.
            let goes_on = !self.is_json() || left > RESERVE_FACTOR * needed;
            if goes_on {
                // A search that fails is the most expensive: the next one can wait.
                self.rescue.num_unchecked = left / LOOKS_WITHOUT_TAIL;
            }
            return Some(goes_on);
        };
        let fits = tail.len() <= left;
        if fits {
            self.rescue.keep(tail, left, growth);
        }
        Some(fits)
    }
}

#[cfg(test)]
impl Constraint {
    pub(super) fn num_minimum_tokens(&self) -> Option<usize> {
        self.grammar.witness().map(<[u32]>::len)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::constraint::Compiler;
    use crate::model::fake::FakeVocabulary;
    use crate::request::ConstraintSpec;

    fn start(compiler: &Compiler, schema: &str, budget: usize) -> Result<Constraint, Error> {
        let spec = ConstraintSpec::JsonSchema(schema.to_owned());
        Constraint::new(compiler.compile(&spec, &|| false)?, budget)
    }

    /// A token of the mask, by a number that stands for the model's choice.
    fn choose(constraint: &mut Constraint, choice: usize) -> TokenId {
        let mask = constraint.mask().unwrap();
        let allowed: Vec<i32> = (0..257).filter(|&id| mask.allows(TokenId(id))).collect();
        TokenId(allowed[choice % allowed.len()])
    }

    /// Writes a document with arbitrary choices; its tokens, and whether it ended before its budget did.
    fn write(mut constraint: Constraint, budget: usize, seed: usize) -> (usize, bool) {
        let mut len = 0;
        let mut state = seed;
        while len < budget {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let sampled = choose(&mut constraint, state >> 33);
            let mut settled = constraint.settle(sampled, budget - len).unwrap();
            while settled == Settled::Later {
                constraint.work_ahead().unwrap();
                settled = constraint.settle_on().unwrap();
            }
            match settled {
                Settled::Token | Settled::Later => len += 1,
                Settled::Tail(tail) => {
                    len += tail.len();
                    constraint.check_document().unwrap();
                    return (len, false);
                }
            }
            if constraint.is_finished() {
                break;
            }
            len += constraint.take_forced(budget - len).unwrap().len();
            if constraint.is_finished() {
                break;
            }
        }
        constraint.check_document().unwrap();
        (len, constraint.is_finished())
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
    fn a_known_tail_spares_a_grammar_the_search() {
        let compiler = Compiler::new(Arc::new(FakeVocabulary));
        let grammar = "start: start start | \"(\" start \")\" | /[^()]x/";
        let spec = ConstraintSpec::Lark(grammar.to_owned());
        let mut constraint = Constraint::new(compiler.compile(&spec, &|| false).unwrap(), 40).unwrap();
        let mut num_waits = [0; 14];
        for (index, byte) in b"((((-xaxbx(cx)".iter().enumerate() {
            let mut settled = constraint.settle(TokenId(i32::from(*byte)), 40 - index).unwrap();
            while settled == Settled::Later {
                num_waits[index] += 1;
                constraint.work_ahead().unwrap();
                settled = constraint.settle_on().unwrap();
            }
            assert_eq!(settled, Settled::Token);
        }
        assert_eq!(constraint.tail().map(|tail| tail.len()), Some(4));
        // The last bracket asked for a search, the letter behind it did not.
        assert!(num_waits[10] > 0 && num_waits[11] == 0, "{num_waits:?}");
    }

    #[test]
    fn forced_tokens_come_without_a_choice() {
        let compiler = Compiler::new(Arc::new(FakeVocabulary));
        let schema = r#"{"properties": {"name": {"type": "boolean"}}, "required": ["name"], "additionalProperties": false, "type": "object"}"#;
        let mut constraint = start(&compiler, schema, 100).unwrap();
        let first = choose(&mut constraint, 0);
        assert_eq!(constraint.settle(first, 100).unwrap(), Settled::Token);
        let forced: Vec<u8> = constraint.take_forced(99).unwrap().iter().map(|token| token.0 as u8).collect();
        assert_eq!(String::from_utf8(forced).unwrap(), "\"name\":");
    }

    #[test]
    fn what_was_begun_can_be_closed_at_once() {
        let compiler = Compiler::new(Arc::new(FakeVocabulary));
        let mut constraint = start(&compiler, r#"{"type": "array"}"#, 100).unwrap();
        for (left, byte) in (90..=100).rev().zip(b"[[\"a") {
            assert_eq!(constraint.settle(TokenId(i32::from(*byte)), left).unwrap(), Settled::Token);
        }
        assert_eq!(constraint.close(2), None);
        let mut constraint = start(&compiler, r#"{"type": "array"}"#, 100).unwrap();
        for byte in b"[[\"a" {
            constraint.settle(TokenId(i32::from(*byte)), 100).unwrap();
        }
        assert_eq!(constraint.close(3).map(|tail| tail.len()), Some(3));
        constraint.check_document().unwrap();
    }
}
