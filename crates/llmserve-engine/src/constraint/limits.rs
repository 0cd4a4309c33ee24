//! Keeps JSON documents within what readers take. JSON's grammar allows any exponent, any number of digits
//! and any depth; models make use of it, and most parsers then fail or give infinity.

use llguidance::toktrie::SimpleVob;
use llmserve_json_tail::Walk;

/// A number of this many characters takes no further digit: a double has 17 significant ones, and the
/// longest text that prints one takes 24 characters.
pub(super) const MAX_LEN: usize = 24;
/// The limit for numbers if a schema asks for multiples, which readers compute in doubles.
pub(super) const MAX_LEN_OF_MULTIPLES: usize = 12;

/// Inside this many arrays and objects no further one begins: common parsers take 128 and more.
const MAX_DEPTH: usize = 100;

/// Tokens that would make a document unreadable, by where they stand.
pub(super) struct LimitedTokens {
    /// Digits and then an exponent: anywhere outside strings.
    with_exponent: SimpleVob,
    /// An exponent at once: inside a number.
    exponent: SimpleVob,
    /// Digits at once: inside a long number.
    digits: SimpleVob,
    /// An array or object begins: outside strings.
    openers: SimpleVob,
    /// Openers after a quote: inside strings.
    openers_after_quote: SimpleVob,
}

impl LimitedTokens {
    /// Sorts the tokens of a vocabulary, given by id and bytes; `none` is a set without tokens.
    pub(super) fn new<'a>(tokens: impl Iterator<Item = (u32, &'a [u8])>, none: &SimpleVob) -> Self {
        let mut new = Self {
            with_exponent: none.clone(),
            exponent: none.clone(),
            digits: none.clone(),
            openers: none.clone(),
            openers_after_quote: none.clone(),
        };
        let is_opener = |byte: &u8| matches!(byte, b'[' | b'{');
        for (id, bytes) in tokens {
            if bytes.iter().any(is_opener) {
                new.openers.allow_token(id);
            }
            if bytes.iter().skip_while(|byte| **byte != b'"').any(is_opener) {
                new.openers_after_quote.allow_token(id);
            }
            let len =
                bytes.iter().take_while(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'-' | b'+')).count();
            let is_exponent = bytes.get(len).is_some_and(|byte| matches!(byte, b'e' | b'E'));
            match (is_exponent, len) {
                (true, 0) => new.exponent.allow_token(id),
                (true, _) => new.with_exponent.allow_token(id),
                (false, 0) => {}
                (false, _) => new.digits.allow_token(id),
            }
        }
        new
    }

    /// Takes tokens out of a mask, unless nothing else may come next: neither another token nor, with
    /// `may_end`, the end of the text.
    pub(super) fn restrict(&self, mask: &mut SimpleVob, walk: &Walk, max_len: usize, may_end: bool) {
        let is_deep = walk.depth() >= MAX_DEPTH;
        if walk.is_in_text() && !is_deep {
            return;
        }
        let mut left = mask.clone();
        if walk.is_in_text() {
            left.sub(&self.openers_after_quote);
        } else {
            self.restrict_numbers(&mut left, walk, max_len);
            if is_deep {
                left.sub(&self.openers);
            }
        }
        if may_end || !left.is_zero() {
            *mask = left;
        }
    }

    fn restrict_numbers(&self, left: &mut SimpleVob, walk: &Walk, max_len: usize) {
        left.sub(&self.with_exponent);
        if walk.number_len() > 0 {
            left.sub(&self.exponent);
        }
        if walk.number_len() >= max_len {
            left.sub(&self.digits);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use llmserve_json_tail::{Normal, Objects, Outline};

    use super::*;

    const TOKENS: [&str; 9] = ["1", "e", "E5", "12e", "3.5", ",", "else", "]", "\"e1"];
    const OPENERS: [&str; 5] = ["[", "{\"", "\":{\"", "a[", "]"];

    fn left_after(text: &str, mask: &[usize], may_end: bool) -> Vec<&'static str> {
        left_of(&TOKENS, text, mask, may_end)
    }

    fn left_of(words: &[&'static str], text: &str, mask: &[usize], may_end: bool) -> Vec<&'static str> {
        let none = SimpleVob::alloc(words.len());
        let tokens = words.iter().zip(0..).map(|(text, id)| (id, text.as_bytes()));
        let limited = LimitedTokens::new(tokens, &none);
        let mut allowed = none;
        for &id in mask {
            allowed.allow_token(id as u32);
        }
        let any = Normal::new(&serde_json::json!({}), Objects::Open).unwrap();
        let mut walk = Walk::new(Arc::new(Outline::compile(&any).unwrap()));
        walk.feed(text.as_bytes());
        limited.restrict(&mut allowed, &walk, MAX_LEN, may_end);
        (0..words.len()).filter(|&id| allowed.get(id)).map(|id| words[id]).collect()
    }

    #[test]
    fn numbers_take_no_exponent_and_end_in_time() {
        let all: Vec<usize> = (0..TOKENS.len()).collect();
        let left = |text: &str| left_after(text, &all, false);
        assert_eq!(left("["), ["1", "e", "E5", "3.5", ",", "else", "]", "\"e1"]);
        assert_eq!(left("[-1"), ["1", "3.5", ",", "]", "\"e1"]);
        assert_eq!(left(r#"["-1"#), TOKENS);
        assert_eq!(left(r#"["\"1"#), TOKENS);
        assert_eq!(left(r#"["\\",1"#), ["1", "3.5", ",", "]", "\"e1"]);
        assert_eq!(left("[fals"), left("["));
        assert_eq!(left(&format!("[{}", "7".repeat(MAX_LEN))), [",", "]", "\"e1"]);
    }

    #[test]
    fn nesting_has_an_end() {
        let left = |text: String| left_of(&OPENERS, &text, &[0, 1, 2, 3, 4], false);
        assert_eq!(left("[".repeat(MAX_DEPTH - 1)), OPENERS);
        assert_eq!(left("[".repeat(MAX_DEPTH)), ["]"]);
        assert_eq!(left(format!("{}\"", "[".repeat(MAX_DEPTH))), ["[", "{\"", "a[", "]"]);
        assert_eq!(left(format!("{}]", "[".repeat(MAX_DEPTH))), OPENERS);
    }

    #[test]
    fn what_alone_may_come_is_left() {
        assert_eq!(left_after("[1", &[1, 2], false), ["e", "E5"]);
        assert_eq!(left_after(&"7".repeat(30), &[0, 4], false), ["1", "3.5"]);
        assert!(left_after(&"7".repeat(30), &[0, 1, 4], true).is_empty());
    }
}
