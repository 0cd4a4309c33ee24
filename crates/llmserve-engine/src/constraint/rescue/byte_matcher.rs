//! llguidance's matcher over single bytes.

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities};
use llguidance::{Matcher, ParserFactory};

use super::judge::ByteJudge;

/// A second matcher of a grammar, whose vocabulary is the 256 bytes. It is fed the text of the
/// sequence and then tried out without touching the matcher that masks tokens.
pub(crate) struct ByteMatcher {
    matcher: Matcher,
    end: u32,
}

impl ByteMatcher {
    /// The factory for such matchers, made once; its limits can be set as those of any other.
    ///
    /// # Errors
    /// llguidance cannot make it.
    pub(crate) fn factory() -> Result<ParserFactory, String> {
        let environment = ApproximateTokEnv::single_byte_env();
        let mut factory = ParserFactory::new(&environment, InferenceCapabilities::default(), &[])
            .map_err(|error| error.to_string())?;
        factory.quiet();
        Ok(factory)
    }

    /// # Errors
    /// The grammar does not compile: llguidance's words.
    pub(crate) fn new(factory: &ParserFactory, grammar: TopLevelGrammar) -> Result<Self, String> {
        let parser = factory.create_parser(grammar).map_err(|error| error.to_string())?;
        let matcher = Matcher::new(Ok(parser));
        match matcher.get_error() {
            Some(error) => Err(error),
            None => Ok(Self { matcher, end: factory.tok_env().tok_trie().eos_token() }),
        }
    }

    /// Goes on by `bytes`; false where they may not come, and then the state is of no more use.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> bool {
        let tokens: Vec<u32> = bytes.iter().copied().map(u32::from).collect();
        self.matcher.try_consume_tokens(&tokens).is_ok_and(|count| count == tokens.len())
    }

    /// Takes back the last `n` bytes; false where there are not so many.
    pub(crate) fn rollback(&mut self, n: usize) -> bool {
        self.matcher.rollback(n).is_ok()
    }

    /// The matcher failed; what it says now means nothing.
    pub(crate) fn is_broken(&self) -> bool {
        self.matcher.is_error()
    }
}

impl ByteJudge for ByteMatcher {
    fn allowed(&mut self) -> [bool; 256] {
        let mut allowed = [false; 256];
        if !self.matcher.is_stopped()
            && let Ok(mask) = self.matcher.compute_mask()
        {
            for (byte, slot) in (0..).zip(&mut allowed) {
                *slot = mask.is_allowed(byte);
            }
        }
        allowed
    }

    fn push(&mut self, byte: u8) -> bool {
        !self.matcher.is_stopped() && self.feed(&[byte])
    }

    fn pop(&mut self, n: usize) {
        // A failure leaves the matcher broken, which every later answer shows.
        let _is_back = self.rollback(n);
    }

    fn accepts(&mut self, text: &[u8]) -> bool {
        if text.is_empty() {
            return self.is_complete();
        }
        let mut tokens: Vec<u32> = text.iter().copied().map(u32::from).collect();
        tokens.push(self.end);
        self.matcher.validate_tokens(&tokens).is_ok_and(|count| count == tokens.len())
    }

    fn is_complete(&mut self) -> bool {
        self.matcher.is_accepting().unwrap_or(false)
    }

    fn forced(&mut self) -> Vec<u8> {
        if self.matcher.is_stopped() { Vec::new() } else { self.matcher.compute_ff_bytes() }
    }
}
