//! A compiled specification, and the states that sequences start from.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};

use jsonschema::Validator;
use llguidance::Matcher;
use llguidance::panic_utils::catch_unwind;
use llguidance::toktrie::{SimpleVob, TokenizerEnv};
use llmserve_json_tail::{Outline, Walk, find_tail};

use super::byte_matcher::ByteMatcher;
use super::document;
use super::environment::TokenEnvironment;
use super::memory::Counted;
use crate::error::Error;
use crate::lock::lock;

/// Tokens by which a token may lengthen the tail of a text that is not JSON: a guess.
const TAIL_GROWTH: usize = 64;
/// Maximum number of questions that the search for a tail may ask.
pub(super) const TAIL_FUEL: usize = 3000;

/// A compiled specification.
pub(crate) struct Grammar {
    environment: Arc<TokenEnvironment>,
    /// States at the beginning of a text, over the vocabulary and over bytes. Copies are taken of them.
    matcher: Mutex<Matcher>,
    bytes: Mutex<ByteMatcher>,
    memory: Counted,
    rules: Rules,
    witness: Option<Vec<u32>>,
    /// Whether the empty text is a whole one.
    is_empty_whole: bool,
}

/// The parts of a [`Grammar`].
pub(super) struct Start {
    pub(super) tokens: Matcher,
    pub(super) bytes: ByteMatcher,
    /// The memory that both take.
    pub(super) memory: Counted,
}

/// What is known about the texts of a grammar, beside the grammar itself.
pub(super) enum Rules {
    /// JSON documents of a schema.
    Json(Box<JsonRules>),
    /// Any other text.
    Text,
}

pub(super) struct JsonRules {
    /// The outline in which tails are searched.
    pub(super) outline: Arc<Outline>,
    /// Checks complete documents.
    pub(super) validator: Validator,
}

impl Grammar {
    /// Looks for the shortest text while `goes_on`.
    pub(super) fn new(
        environment: Arc<TokenEnvironment>,
        start: Start,
        rules: Rules,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Self {
        let Start { mut tokens, bytes, memory } = start;
        let is_empty_whole = guarded(|| tokens.is_accepting()).unwrap_or(false);
        let mut grammar = Self {
            environment,
            matcher: Mutex::new(tokens),
            bytes: Mutex::new(bytes),
            memory,
            rules,
            witness: None,
            is_empty_whole,
        };
        grammar.witness = grammar.find_witness(goes_on);
        grammar
    }

    fn find_witness(&self, goes_on: &mut dyn FnMut() -> bool) -> Option<Vec<u32>> {
        let mut bytes = self.fresh_bytes().ok()?;
        let mut walk = self.walk();
        let text = guarded(|| Ok(find_tail(&mut bytes, walk.as_mut(), TAIL_FUEL, goes_on))).ok().flatten()?;
        let tokens = self.environment.tokenize(&text);
        self.completes(&mut lock(&self.matcher), &tokens).then_some(tokens)
    }

    pub(super) fn is_json(&self) -> bool {
        matches!(self.rules, Rules::Json(_))
    }

    pub(super) fn is_empty_whole(&self) -> bool {
        self.is_empty_whole
    }

    /// The memory that is kept for it, as far as it is known.
    pub(super) fn num_bytes(&self) -> usize {
        self.memory.num_bytes()
    }

    pub(super) fn environment(&self) -> &TokenEnvironment {
        &self.environment
    }

    pub(super) fn no_tokens(&self) -> SimpleVob {
        self.environment.tok_trie().alloc_token_set()
    }

    /// The tokens of the shortest whole text that was found.
    pub(super) fn witness(&self) -> Option<&[u32]> {
        self.witness.as_deref()
    }

    /// The largest number of tokens by which one more token may lengthen the tail: an estimate. A token has
    /// at least one byte for each byte of the value that it begins.
    pub(super) fn max_tail_growth(&self) -> usize {
        match &self.rules {
            Rules::Json(rules) => rules.outline.dearest_frame(),
            Rules::Text => TAIL_GROWTH,
        }
    }

    /// Whether a schema asks for multiples of a number.
    pub(super) fn has_multiples(&self) -> bool {
        matches!(&self.rules, Rules::Json(rules) if rules.outline.has_multiples())
    }

    /// Follows a document from its beginning, if the texts are documents.
    pub(super) fn walk(&self) -> Option<Walk> {
        match &self.rules {
            Rules::Json(rules) => Some(Walk::new(Arc::clone(&rules.outline))),
            Rules::Text => None,
        }
    }

    /// Whether the tokens may follow and make the text a whole one. The matcher is unchanged afterwards.
    pub(super) fn completes(&self, matcher: &mut Matcher, tokens: &[u32]) -> bool {
        let Some(end) = self.environment.end_tokens().next() else {
            return follows_whole(matcher, tokens);
        };
        let tokens = [tokens, &[end]].concat();
        guarded(|| matcher.validate_tokens(&tokens)).is_ok_and(|n| n == tokens.len())
    }

    /// A fresh state at the beginning, and its memory.
    pub(super) fn fresh_matcher(&self) -> Result<(Matcher, Counted), Error> {
        let matcher = guarded(|| Ok(lock(&self.matcher).deep_clone())).map_err(|_| no_copy())?;
        Ok((matcher, self.memory.again(self.num_bytes() / 2)))
    }

    /// A fresh matcher over bytes.
    pub(super) fn fresh_bytes(&self) -> Result<ByteMatcher, Error> {
        let memory = self.memory.again(self.num_bytes() / 2);
        lock(&self.bytes).deep_clone(memory).map_err(|_| no_copy())
    }

    /// Judges a text that the matcher took as whole.
    pub(super) fn check_document(&self, text: &[u8]) -> Result<(), Error> {
        match &self.rules {
            Rules::Json(rules) => document::check(&rules.validator, text),
            Rules::Text => Ok(()),
        }
    }
}

fn no_copy() -> Error {
    Error::ConstraintFailed { reason: "its state could not be copied" }
}

/// [`Grammar::completes`] for a vocabulary without a token that ends a generation.
fn follows_whole(matcher: &mut Matcher, tokens: &[u32]) -> bool {
    if !guarded(|| matcher.validate_tokens(tokens)).is_ok_and(|n| n == tokens.len()) {
        return false;
    }
    let is_whole = guarded(|| {
        matcher.consume_tokens(tokens)?;
        let is_whole = matcher.is_accepting()?;
        matcher.rollback(tokens.len())?;
        Ok(is_whole)
    });
    matcher.invalidate_bias_cache();
    is_whole.unwrap_or(false)
}

/// Calls llguidance so that a panic in it is an error, and is not printed.
pub(super) fn guarded<T>(call: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    catch_unwind(AssertUnwindSafe(call))
}
