//! A compiled specification: what is kept of it, and the states that sequences start from.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};

use llguidance::Matcher;
use llguidance::panic_utils::catch_unwind;
use llguidance::toktrie::{SimpleVob, TokenizerEnv};

use super::document::DocumentCheck;
use super::environment::TokenEnvironment;
use super::tail::ByteMatcher;
use crate::error::Error;
use crate::lock::lock;

/// Bytes by which a token may lengthen the tail where nothing better is known.
const TAIL_GROWTH: usize = 64;

/// A compiled specification.
pub(super) struct Grammar {
    environment: Arc<TokenEnvironment>,
    /// States at the beginning of a text, over the vocabulary and over bytes. Copies are taken of them.
    matcher: Mutex<Matcher>,
    bytes: Mutex<ByteMatcher>,
    check: DocumentCheck,
    witness: Option<Vec<u32>>,
}

impl Grammar {
    pub(super) fn new(
        environment: Arc<TokenEnvironment>,
        mut matcher: Matcher,
        bytes: ByteMatcher,
        check: DocumentCheck,
    ) -> Self {
        let witness = find_witness(&environment, &mut matcher, &bytes, check.is_json());
        Self { environment, matcher: Mutex::new(matcher), bytes: Mutex::new(bytes), check, witness }
    }

    pub(super) fn is_json(&self) -> bool {
        self.check.is_json()
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

    pub(super) fn max_tail_growth(&self) -> usize {
        self.witness.as_ref().map_or(TAIL_GROWTH, |witness| witness.len().max(TAIL_GROWTH))
    }

    pub(super) fn fresh_matcher(&self) -> Result<Matcher, Error> {
        guarded(|| Ok(lock(&self.matcher).deep_clone()))
            .map_err(|_| Error::ConstraintFailed { reason: "its state could not be copied" })
    }

    pub(super) fn fresh_bytes(&self) -> Result<ByteMatcher, Error> {
        lock(&self.bytes).deep_clone()
    }

    pub(super) fn check_document(&self, text: &[u8]) -> Result<(), Error> {
        self.check.check(text)
    }
}

fn find_witness(
    environment: &TokenEnvironment,
    matcher: &mut Matcher,
    bytes: &ByteMatcher,
    is_json: bool,
) -> Option<Vec<u32>> {
    let text = bytes.deep_clone().ok()?.find_tail(&[], is_json)?;
    let tokens = environment.tokenize(&text);
    completes(matcher, &tokens).then_some(tokens)
}

/// Whether the tokens may follow and make the text a whole one. The matcher is left as it was.
pub(super) fn completes(matcher: &mut Matcher, tokens: &[u32]) -> bool {
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
