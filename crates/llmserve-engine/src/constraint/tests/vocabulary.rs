//! A vocabulary of bytes, some words, two tokens that end a generation and a control token.

use crate::error::Error;
use crate::ids::TokenId;
use crate::model::Vocabulary;
use crate::model::fake::FakeVocabulary;

pub(super) const END: TokenId = TokenId(256);
pub(super) const OTHER_END: TokenId = TokenId(257);
pub(super) const CONTROL: TokenId = TokenId(258);
const FIRST_WORD: usize = 259;
const WORDS: [&str; 18] = [
    "{\"", "\":", "\":\"", "\",\"", "\"}", "name", "nam", "tr", "true", "null", "}}", "a1", "a2", "]}", " a",
    " b", "[[", "\u{4f60}",
];
const CONTROL_TEXT: &str = "<|control|>";

/// Tokenizes greedily; with `adds_space` as `SentencePiece` does, with a space in front of every text.
#[derive(Debug, Default)]
pub(super) struct WordVocabulary {
    pub(super) adds_space: bool,
    /// No token ends a generation.
    pub(super) has_no_end: bool,
    /// Texts become lower case.
    pub(super) normalizes: bool,
}

impl WordVocabulary {
    pub(super) fn word(text: &str) -> TokenId {
        let index = WORDS.iter().position(|word| *word == text).unwrap();
        TokenId((FIRST_WORD + index) as i32)
    }

    pub(super) fn byte(byte: u8) -> TokenId {
        TokenId(i32::from(byte))
    }
}

impl Vocabulary for WordVocabulary {
    fn size(&self) -> usize {
        FIRST_WORD + WORDS.len()
    }

    fn tokenize(&self, text: &str, _add_special: bool, parse_special: bool) -> Result<Vec<TokenId>, Error> {
        let text = if self.normalizes { text.to_lowercase() } else { text.to_owned() };
        let text = if self.adds_space && !text.is_empty() { format!(" {text}") } else { text };
        let mut rest = text.as_bytes();
        let mut tokens = Vec::new();
        while let Some(&first) = rest.first() {
            if parse_special && rest.starts_with(CONTROL_TEXT.as_bytes()) {
                tokens.push(CONTROL);
                rest = &rest[CONTROL_TEXT.len()..];
                continue;
            }
            let words = WORDS.iter().filter(|word| rest.starts_with(word.as_bytes()));
            let (token, len) = match words.max_by_key(|word| word.len()) {
                Some(word) => (Self::word(word), word.len()),
                None => (Self::byte(first), 1),
            };
            tokens.push(token);
            rest = &rest[len..];
        }
        Ok(tokens)
    }

    fn piece(&self, token: TokenId, render_special: bool) -> &[u8] {
        let special = match token {
            END => "<|end|>",
            OTHER_END => "<|other end|>",
            CONTROL => CONTROL_TEXT,
            TokenId(0..256) => return FakeVocabulary.piece(token, false),
            TokenId(id) => return WORDS[id as usize - FIRST_WORD].as_bytes(),
        };
        if render_special { special.as_bytes() } else { &[] }
    }

    fn max_piece_bytes(&self) -> usize {
        16
    }

    fn end_of_generation(&self) -> &[TokenId] {
        if self.has_no_end { &[] } else { &[END, OTHER_END] }
    }
}
