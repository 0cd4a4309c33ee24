//! A compiled specification: what is kept of it, and the states that sequences start from.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};

use jsonschema::Validator;
use llguidance::Matcher;
use llguidance::panic_utils::catch_unwind;
use llguidance::toktrie::{SimpleVob, TokenizerEnv};

use super::document;
use super::environment::TokenEnvironment;
use super::rescue::{self, ByteMatcher, Outline};
use crate::error::Error;
use crate::lock::lock;

/// Tokens by which a token may lengthen the tail of a text that is not JSON: a guess.
const TAIL_GROWTH: usize = 64;
/// Questions that the search for a tail may ask.
const TAIL_FUEL: usize = 3000;

/// A compiled specification.
pub(super) struct Grammar {
    environment: Arc<TokenEnvironment>,
    /// States at the beginning of a text, over the vocabulary and over bytes. Copies are taken of them.
    matcher: Mutex<Matcher>,
    bytes: Mutex<ByteMatcher>,
    num_bytes: usize,
    rules: Rules,
    witness: Option<Vec<u32>>,
}

/// What [`Grammar`] is made of.
pub(super) struct Start {
    pub(super) tokens: Matcher,
    pub(super) bytes: ByteMatcher,
    /// Memory that both take.
    pub(super) num_bytes: usize,
}

/// What is known of the texts of a grammar beside the grammar itself.
pub(super) enum Rules {
    /// JSON documents of a schema.
    Json(Box<JsonRules>),
    /// Any other text.
    Text,
}

pub(super) struct JsonRules {
    /// For the search for tails.
    pub(super) outline: Outline,
    /// For the full check of a document.
    pub(super) validator: Validator,
}

impl Rules {
    fn outline(&self) -> Option<&Outline> {
        match self {
            Self::Json(rules) => Some(&rules.outline),
            Self::Text => None,
        }
    }
}

impl Grammar {
    pub(super) fn new(environment: Arc<TokenEnvironment>, start: Start, rules: Rules) -> Self {
        let mut grammar = Self {
            environment,
            matcher: Mutex::new(start.tokens),
            bytes: Mutex::new(start.bytes),
            num_bytes: start.num_bytes,
            rules,
            witness: None,
        };
        grammar.witness = grammar.find_witness();
        grammar
    }

    fn find_witness(&self) -> Option<Vec<u32>> {
        let text = self.find_tail(&mut self.fresh_bytes().ok()?, &[])?;
        let tokens = self.environment.tokenize(&text);
        self.completes(&mut lock(&self.matcher), &tokens).then_some(tokens)
    }

    pub(super) fn is_json(&self) -> bool {
        matches!(self.rules, Rules::Json(_))
    }

    /// Memory that is kept for it, as far as it is known.
    pub(super) fn num_bytes(&self) -> usize {
        self.num_bytes
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

    /// A token has at least one byte for each byte of the value that it begins.
    pub(super) fn max_tail_growth(&self) -> usize {
        self.rules.outline().map_or(TAIL_GROWTH, Outline::dearest_frame)
    }

    /// Whether a schema asks for multiples of a number.
    pub(super) fn has_multiples(&self) -> bool {
        self.rules.outline().is_some_and(Outline::has_multiples)
    }

    /// Whether no text can make a document of what `text` begins, though the matcher allows it.
    pub(super) fn spoils(&self, text: &[u8]) -> bool {
        self.rules.outline().is_some_and(|outline| outline.spoils(text))
    }

    /// A text that completes `text`, which `bytes` has followed and follows still.
    pub(super) fn find_tail(&self, bytes: &mut ByteMatcher, text: &[u8]) -> Option<Vec<u8>> {
        let outline = self.rules.outline();
        guarded(|| Ok(rescue::find_tail(bytes, outline, text, TAIL_FUEL))).ok().flatten()
    }

    /// Whether the tokens may follow and make the text a whole one. The matcher is left as it was.
    pub(super) fn completes(&self, matcher: &mut Matcher, tokens: &[u32]) -> bool {
        let Some(end) = self.environment.end_tokens().next() else {
            return follows_whole(matcher, tokens);
        };
        let tokens = [tokens, &[end]].concat();
        guarded(|| matcher.validate_tokens(&tokens)).is_ok_and(|n| n == tokens.len())
    }

    pub(super) fn fresh_matcher(&self) -> Result<Matcher, Error> {
        guarded(|| Ok(lock(&self.matcher).deep_clone()))
            .map_err(|_| Error::ConstraintFailed { reason: "its state could not be copied" })
    }

    pub(super) fn fresh_bytes(&self) -> Result<ByteMatcher, Error> {
        lock(&self.bytes)
            .deep_clone()
            .map_err(|_| Error::ConstraintFailed { reason: "its state could not be copied" })
    }

    /// Judges a text that the matcher took as whole.
    pub(super) fn check_document(&self, text: &[u8]) -> Result<(), Error> {
        match &self.rules {
            Rules::Json(rules) => document::check(&rules.validator, text),
            Rules::Text => Ok(()),
        }
    }
}

/// As [`Grammar::completes`], for a vocabulary without a token that ends a generation.
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
