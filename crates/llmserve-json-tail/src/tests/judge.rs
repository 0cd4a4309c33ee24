//! llguidance's matcher over single bytes.

use std::sync::Arc;

use llguidance::api::GrammarInit;
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};

use crate::ByteJudge;

/// The token that ends a text; the others are the bytes.
const END: u32 = 256;

/// A second matcher of a grammar, whose vocabulary is the 256 bytes. It is fed the text of the
/// sequence and then tried out without touching the matcher that masks tokens.
pub(super) struct ByteMatcher {
    matcher: Matcher,
}

impl ByteMatcher {
    /// The factory for such matchers, made once; its limits can be set like those of any other.
    ///
    /// # Errors
    /// llguidance cannot make it.
    pub(super) fn factory() -> anyhow::Result<ParserFactory> {
        let mut words: Vec<Vec<u8>> = (0..=u8::MAX).map(|byte| vec![byte]).collect();
        words.push([&[TokTrie::SPECIAL_TOKEN_MARKER], b"<end>".as_slice()].concat());
        let trie = TokTrie::from(&TokRxInfo::new(END + 1, END), &words);
        // Not canonical: llguidance would tokenize the forced bytes again for each mask.
        let environment = Arc::new(ApproximateTokEnv::new(trie));
        let mut factory = ParserFactory::new(&(environment as _), InferenceCapabilities::default(), &[])?;
        factory.quiet();
        Ok(factory)
    }

    /// # Errors
    /// The grammar does not compile; the reason is in llguidance's words.
    pub(super) fn new(factory: &ParserFactory, grammar: GrammarInit) -> anyhow::Result<Self> {
        let matcher = Matcher::new(factory.create_parser_from_init_default(grammar));
        match matcher.get_error() {
            Some(error) => anyhow::bail!(error),
            None => Ok(Self { matcher }),
        }
    }

    /// Advances by `bytes`; false if they may not come, and then the state is useless.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> bool {
        let tokens: Vec<u32> = bytes.iter().copied().map(u32::from).collect();
        self.matcher.try_consume_tokens(&tokens).is_ok_and(|count| count == tokens.len())
    }

    /// Takes back the last `n` bytes; false if there are fewer.
    pub(super) fn rollback(&mut self, n: usize) -> bool {
        let is_back = self.matcher.rollback(n).is_ok();
        // llguidance keeps a mask by row and lexer state, which another text may share.
        self.matcher.invalidate_bias_cache();
        is_back
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
        tokens.push(END);
        self.matcher.validate_tokens(&tokens).is_ok_and(|count| count == tokens.len())
    }

    fn is_complete(&mut self) -> bool {
        self.matcher.is_accepting().unwrap_or(false)
    }

    fn forced(&mut self) -> Vec<u8> {
        if self.matcher.is_stopped() { Vec::new() } else { self.matcher.compute_ff_bytes() }
    }
}
