//! The vocabulary as llguidance sees it: a trie of the tokens' bytes, and a tokenizer that gives the
//! tokens that the model would see for a text.

use std::sync::Arc;

use llguidance::toktrie::{self, SimpleVob, TokRxInfo, TokTrie, TokenizerEnv};

use super::limits::LimitedTokens;
use crate::ids::TokenId;
use crate::model::Vocabulary;

/// Texts are tokenized in pieces of this size: llama.cpp's pre-tokenizers recurse for each character,
/// and the engine thread's stack is a small one.
const CHUNK_BYTES: usize = 512;
/// Only the first tokens of a longer forced text are asked for, since the rest is asked for again with
/// each step.
const FORCED_BYTES: usize = 4096;
/// The trie's nodes cannot be deeper than 1024; a token of this many bytes is never worth forcing.
const MAX_TOKEN_BYTES: usize = 1000;
/// Characters in front of a text that stand for "not the beginning". They must not merge with what
/// follows, which is tried with each vocabulary.
const PREFIXES: [&str; 3] = ["\u{2}", "\n", "!"];
const PROBES: [&str; 5] = ["a", "{\"", " b", "1", "\"name\":"];

/// A model's vocabulary with everything that llguidance asks of it.
pub(super) struct TokenEnvironment {
    vocabulary: Arc<dyn Vocabulary>,
    trie: TokTrie,
    /// Tokens that stand for text: no control tokens, and none that end a generation.
    text_tokens: SimpleVob,
    limited: LimitedTokens,
    prefix: Option<Prefix>,
}

/// What is put before a text so that the vocabulary adds no space of its own to it.
struct Prefix {
    text: &'static str,
    num_tokens: usize,
}

impl TokenEnvironment {
    /// Takes hundreds of milliseconds for a large vocabulary.
    pub(super) fn new(vocabulary: Arc<dyn Vocabulary>) -> Self {
        let size = vocabulary.size();
        let words: Vec<Vec<u8>> = (0..size).map(|id| word(&*vocabulary, TokenId(id as i32))).collect();
        let ends: Vec<u32> = end_tokens(&*vocabulary).collect();
        let first = ends.first().copied().unwrap_or(toktrie::INVALID_TOKEN);
        let mut trie = TokTrie::from(&TokRxInfo::new(size as u32, first), &words);
        if ends.len() > 1 {
            trie = trie.with_eos_tokens(&ends);
        }
        let mut text_tokens = trie.alloc_token_set();
        for (id, word) in words.iter().enumerate() {
            if !is_special(word) {
                text_tokens.allow_token(id as u32);
            }
        }
        let texts = words.iter().zip(0..).filter(|(word, _)| !is_special(word));
        let limited =
            LimitedTokens::new(texts.map(|(word, id)| (id, word.as_slice())), &trie.alloc_token_set());
        let mut environment = Self { vocabulary, trie, text_tokens, limited, prefix: None };
        environment.prefix = environment.find_prefix();
        environment
    }

    /// The tokens of a text in the middle of a document. They stand for exactly these bytes, and where
    /// the vocabulary allows it they are the ones that it would choose itself.
    pub(super) fn tokenize(&self, text: &[u8]) -> Vec<u32> {
        chunks(text).flat_map(|chunk| self.tokenize_chunk(chunk)).collect()
    }

    /// The bytes that a token adds to the text.
    pub(super) fn bytes(&self, token: u32) -> &[u8] {
        let word = self.trie.token(token);
        if is_special(word) { &[] } else { word }
    }

    /// The tokens that may stand in a document.
    pub(super) fn text_tokens(&self) -> &SimpleVob {
        &self.text_tokens
    }

    /// Takes the tokens that begin with one of these texts out of a mask, unless no others are in it.
    pub(super) fn forbid(&self, texts: &[Vec<u8>], mask: &mut SimpleVob) {
        if texts.is_empty() {
            return;
        }
        let mut left = mask.clone();
        let nodes = texts.iter().filter_map(|text| self.trie.child_at_bytes(self.trie.root(), text));
        let mut open: Vec<_> = nodes.collect();
        while let Some(node) = open.pop() {
            if let Some(token) = node.token_id() {
                left.disallow_token(token);
            }
            open.extend(self.trie.node_children(node));
        }
        if !left.is_zero() {
            *mask = left;
        }
    }

    /// The tokens that could make a document unreadable.
    pub(super) fn limited(&self) -> &LimitedTokens {
        &self.limited
    }

    /// The tokens that end a generation.
    pub(super) fn end_tokens(&self) -> impl Iterator<Item = u32> + '_ {
        end_tokens(&*self.vocabulary)
    }

    pub(super) fn is_end(&self, token: TokenId) -> bool {
        self.vocabulary.is_end_of_generation(token)
    }

    fn tokenize_chunk(&self, chunk: &[u8]) -> Vec<u32> {
        self.trie.tokenize_with_greedy_fallback(chunk, |text| {
            let tokens = match &self.prefix {
                None => self.raw_tokens(text),
                Some(prefix) => self.tokens_after(prefix, text),
            };
            // A vocabulary that normalizes, or lacks a character, would give another text.
            match tokens {
                Some(tokens) if self.is_text(&tokens, text) => tokens,
                Some(_) | None => self.trie.greedy_tokenize(text.as_bytes()),
            }
        })
    }

    fn raw_tokens(&self, text: &str) -> Option<Vec<u32>> {
        let tokens = self.vocabulary.tokenize(text, false, false).ok()?;
        tokens.into_iter().map(|token| u32::try_from(token.0).ok()).collect()
    }

    fn tokens_after(&self, prefix: &Prefix, text: &str) -> Option<Vec<u32>> {
        let mut tokens = self.raw_tokens(&format!("{}{text}", prefix.text))?;
        (tokens.len() >= prefix.num_tokens).then(|| tokens.split_off(prefix.num_tokens))
    }

    fn is_text(&self, tokens: &[u32], text: &str) -> bool {
        let mut rest = text.as_bytes();
        tokens.iter().all(|&token| match rest.strip_prefix(self.bytes(token)) {
            Some(left) => {
                rest = left;
                true
            }
            None => false,
        }) && rest.is_empty()
    }

    /// `None` if texts need no prefix, or if none helps: then they are cut greedily.
    fn find_prefix(&self) -> Option<Prefix> {
        let fits = |prefix: &Prefix| {
            PROBES.iter().all(|probe| {
                self.tokens_after(prefix, probe).is_some_and(|tokens| self.is_text(&tokens, probe))
            })
        };
        if fits(&Prefix { text: "", num_tokens: 0 }) {
            return None;
        }
        let prefixes = PREFIXES
            .iter()
            .filter_map(|&text| Some(Prefix { text, num_tokens: self.raw_tokens(text)?.len() }));
        prefixes.into_iter().find(fits)
    }
}

/// The view for llguidance.
impl TokenizerEnv for TokenEnvironment {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, text: &[u8]) -> Vec<u32> {
        if text.len() <= FORCED_BYTES {
            return self.tokenize(text);
        }
        let mut tokens = self.tokenize(&text[..FORCED_BYTES]);
        // The cut may have gone through a word: its last tokens are a poor guess.
        tokens.truncate(tokens.len().saturating_sub(4));
        // Tokens of this length do not occur; llguidance needs more than it may chop off again.
        if tokens.len() < 16 { self.tokenize(text) } else { tokens }
    }

    fn tokenize_is_canonical(&self) -> bool {
        true
    }
}

fn end_tokens(vocabulary: &dyn Vocabulary) -> impl Iterator<Item = u32> + '_ {
    vocabulary.end_of_generation().iter().filter_map(|token| u32::try_from(token.0).ok())
}

/// The bytes of a token in the trie. Control tokens are marked, so that no text matches them.
fn word(vocabulary: &dyn Vocabulary, token: TokenId) -> Vec<u8> {
    let text = vocabulary.piece(token, false);
    if vocabulary.is_end_of_generation(token) || text.is_empty() {
        let mut word = vec![TokTrie::SPECIAL_TOKEN_MARKER];
        word.extend(format!("<{}>", token.0).bytes());
        return word;
    }
    // No UTF-8 text has the marker's byte.
    if text.len() > MAX_TOKEN_BYTES || text[0] == TokTrie::SPECIAL_TOKEN_MARKER {
        return Vec::new();
    }
    text.to_vec()
}

fn is_special(word: &[u8]) -> bool {
    word.first().is_none_or(|&byte| byte == TokTrie::SPECIAL_TOKEN_MARKER)
}

/// Cuts between characters if there are any.
fn chunks(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut len = rest.len().min(CHUNK_BYTES);
        if len < rest.len() {
            let is_border = |at: usize| rest[at] & 0xc0 != 0x80;
            len = (len - 3..=len).rev().find(|&at| is_border(at)).unwrap_or(len);
        }
        let (chunk, left) = rest.split_at(len);
        rest = left;
        Some(chunk)
    })
}
