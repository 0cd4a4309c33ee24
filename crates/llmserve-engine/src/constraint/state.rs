//! The text of one sequence so far, and what may come next.

use std::sync::Arc;

use llguidance::Matcher;
use llguidance::toktrie::SimpleVob;
use llmserve_json_tail::Walk;

use super::grammar::{Grammar, guarded};
use super::limits::{MAX_LEN, MAX_LEN_OF_MULTIPLES};
use super::memory::Counted;
use super::rescue::Rescue;
use crate::error::Error;
use crate::ids::TokenId;

/// A set of tokens, one bit for each token of the vocabulary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mask(pub(super) SimpleVob);

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

/// The constraint of one sequence: its text, what may come next, and how the text is completed in time
/// (see `rescue`).
pub(crate) struct Constraint {
    pub(super) grammar: Arc<Grammar>,
    /// A copy of the grammar's own, made when it is first needed: a request that waits has none.
    matcher: Option<(Matcher, Counted)>,
    pub(super) written: Written,
    /// How many of the last tokens end the generation; they are not part of the text.
    num_ends: usize,
    mask: Option<Mask>,
    pub(super) rescue: Rescue,
    has_failed: bool,
}

/// The text so far, to go back by tokens.
pub(super) enum Written {
    /// A JSON document.
    Json(Box<Walk>),
    /// Any other text, and where each token begins.
    Text { text: Vec<u8>, starts: Vec<usize> },
}

impl Written {
    pub(super) fn text(&self) -> &[u8] {
        match self {
            Self::Json(walk) => walk.text(),
            Self::Text { text, .. } => text,
        }
    }

    pub(super) fn walk(&mut self) -> Option<&mut Walk> {
        match self {
            Self::Json(walk) => Some(walk),
            Self::Text { .. } => None,
        }
    }

    fn push(&mut self, token: &[u8]) {
        match self {
            Self::Json(walk) => walk.feed(token),
            Self::Text { text, starts } => {
                starts.push(text.len());
                text.extend(token);
            }
        }
    }

    fn pop(&mut self, n: usize) {
        match self {
            Self::Json(walk) => walk.rollback(n),
            Self::Text { text, starts } => {
                let left = starts.len().saturating_sub(n);
                if let Some(&start) = starts.get(left) {
                    text.truncate(start);
                }
                starts.truncate(left);
            }
        }
    }

    fn num_tokens(&self) -> usize {
        match self {
            Self::Json(walk) => walk.num_pieces(),
            Self::Text { starts, .. } => starts.len(),
        }
    }
}

impl Constraint {
    /// The state at the start of the output, which may have `budget` tokens.
    ///
    /// # Errors
    /// [`Error::BudgetTooSmall`] if the shortest document does not fit into the budget.
    pub(crate) fn new(grammar: Arc<Grammar>, budget: usize) -> Result<Self, Error> {
        let minimum = grammar.witness().map_or(0, <[u32]>::len);
        if minimum > budget {
            return Err(Error::BudgetTooSmall { minimum, budget });
        }
        let written = match grammar.walk() {
            Some(walk) => Written::Json(Box::new(walk)),
            None => Written::Text { text: Vec::new(), starts: Vec::new() },
        };
        let rescue = Rescue::new(&grammar, budget);
        Ok(Self { grammar, matcher: None, written, num_ends: 0, mask: None, rescue, has_failed: false })
    }

    /// Whether the text is a JSON document.
    pub(crate) fn is_json(&self) -> bool {
        self.grammar.is_json()
    }

    /// The tokens that may come next; those that end the generation are among them exactly where the
    /// text may end.
    ///
    /// # Errors
    /// [`Error::ConstraintFailed`], and then permanently.
    pub(crate) fn mask(&mut self) -> Result<&Mask, Error> {
        let mask = match self.mask.take() {
            Some(mask) => mask,
            None => self.compute_mask()?,
        };
        Ok(self.mask.insert(mask))
    }

    fn compute_mask(&mut self) -> Result<Mask, Error> {
        self.check()?;
        self.ask(|_| Ok(())).map_err(|_| self.fail("its state could not be copied"))?;
        let may_end = self.is_complete();
        let mut mask = self.grammar.no_tokens();
        if !self.is_finished() {
            mask =
                self.ask(Matcher::compute_mask).map_err(|_| self.fail("no token can continue the text"))?;
            let environment = self.grammar.environment();
            mask.and(environment.text_tokens());
            if let Written::Json(walk) = &self.written {
                let max_len = if self.grammar.has_multiples() { MAX_LEN_OF_MULTIPLES } else { MAX_LEN };
                environment.limited().restrict(&mut mask, walk, max_len, may_end);
                environment.forbid(&walk.repetitions(), &mut mask);
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
    /// [`Error::ConstraintFailed`] if the token may not come next, and then permanently.
    pub(super) fn consume(&mut self, token: TokenId) -> Result<(), Error> {
        self.check()?;
        self.forget_look();
        if self.grammar.environment().is_end(token) {
            if !self.is_complete() {
                return Err(self.fail("the text may not end here"));
            }
            self.num_ends += 1;
        } else {
            let grammar = Arc::clone(&self.grammar);
            let id = u32::try_from(token.0).unwrap_or(u32::MAX);
            let bytes = grammar.environment().bytes(id);
            if bytes.is_empty()
                || self.is_finished()
                || self.ask(|matcher| matcher.consume_token(id)).is_err()
            {
                return Err(self.fail("a token that may not come next"));
            }
            self.written.push(bytes);
        }
        self.mask = None;
        Ok(())
    }

    /// Takes the last `n` tokens back.
    ///
    /// # Errors
    /// [`Error::ConstraintFailed`] if that is more than there are, or if the constraint has failed.
    pub(super) fn rollback(&mut self, n: usize) -> Result<(), Error> {
        self.check()?;
        self.forget_look();
        if n == 0 {
            return Ok(());
        }
        let num_ends = n.min(self.num_ends);
        let n = n - num_ends;
        if n > self.written.num_tokens() {
            return Err(self.fail("more tokens taken back than there were"));
        }
        if n > 0 && self.ask(|matcher| matcher.rollback(n)).is_err() {
            return Err(self.fail("tokens could not be taken back"));
        }
        if let Some((matcher, _)) = &mut self.matcher {
            // llguidance keeps a mask by row and lexer state, which another text may share.
            matcher.invalidate_bias_cache();
        }
        self.num_ends -= num_ends;
        self.written.pop(n);
        self.rescue.cut(self.written.text().len());
        self.mask = None;
        Ok(())
    }

    /// The tokens that must come next whatever the model says. They are not consumed.
    pub(super) fn forced(&mut self) -> Vec<TokenId> {
        if self.check().is_err() || self.is_finished() {
            return Vec::new();
        }
        let tokens = self.ask(|matcher| Ok(matcher.compute_ff_tokens())).unwrap_or_default();
        let mut tokens: Vec<TokenId> = tokens.into_iter().map(|id| TokenId(id as i32)).collect();
        tokens.truncate(self.num_valid(&tokens));
        tokens
    }

    /// How many tokens of a draft, from the first, may come next.
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
        self.ask(|matcher| matcher.validate_tokens(&ids)).unwrap_or(0)
    }

    /// Whether the text so far is a whole document. More may follow, as after the number 1.
    pub(crate) fn is_complete(&mut self) -> bool {
        if self.matcher.is_none() {
            return !self.has_failed && self.grammar.is_empty_whole();
        }
        self.check().is_ok() && (self.is_finished() || self.ask(Matcher::is_accepting).unwrap_or(false))
    }

    /// Whether nothing may follow.
    pub(crate) fn is_finished(&self) -> bool {
        let is_stopped = |(matcher, _): &(Matcher, Counted)| !matcher.is_error() && matcher.is_stopped();
        self.num_ends > 0 || (!self.has_failed && self.matcher.as_ref().is_some_and(is_stopped))
    }

    /// The full check of the text so far: a JSON document is parsed and validated against the schema.
    ///
    /// # Errors
    /// [`Error::ConstraintFailed`] if the text is not a document of the constraint.
    pub(crate) fn check_document(&mut self) -> Result<(), Error> {
        self.forget_look();
        if !self.is_complete() {
            return Err(Error::ConstraintFailed { reason: "the text is not a whole document" });
        }
        self.grammar.check_document(self.written.text())
    }

    /// Asks the matcher.
    pub(super) fn ask<T>(
        &mut self,
        question: impl FnOnce(&mut Matcher) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let matcher = match self.matcher.take() {
            Some(matcher) => matcher,
            None => self.grammar.fresh_matcher()?,
        };
        let (matcher, _) = self.matcher.insert(matcher);
        guarded(|| question(matcher))
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        if self.has_failed || self.matcher.as_ref().is_some_and(|(matcher, _)| matcher.is_error()) {
            return Err(Error::ConstraintFailed { reason: "it had failed before" });
        }
        Ok(())
    }

    pub(super) fn fail(&mut self, reason: &'static str) -> Error {
        self.has_failed = true;
        self.mask = None;
        Error::ConstraintFailed { reason }
    }
}
