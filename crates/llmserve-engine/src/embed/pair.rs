//! Joins a query and a document to one input.

use crate::error::Error;
use crate::ids::TokenId;
use crate::model::PairFrame;
use crate::request::{Prompt, Special};
use crate::tokenizer::Tokenizer;

/// Joins the pairs of a request. A query is tokenized once for the pairs that have it in a row.
pub(super) struct Joiner<'a> {
    tokenizer: Tokenizer<'a>,
    frame: &'a PairFrame,
    /// Whether a document that is too long is cut.
    truncate: bool,
    query: Option<(String, Vec<TokenId>)>,
}

impl<'a> Joiner<'a> {
    pub(super) fn new(tokenizer: Tokenizer<'a>, frame: &'a PairFrame, truncate: bool) -> Self {
        Self { tokenizer, frame, truncate, query: None }
    }

    /// The tokens of a pair.
    pub(super) fn join(&mut self, query: String, document: String) -> Result<Vec<TokenId>, Error> {
        let mut document = if self.truncate {
            self.tokenizer.tokenize(&document, false, Special::Plain)?
        } else {
            self.tokens_of(document)?
        };
        let query = match self.query.take() {
            Some((known, tokens)) if known == query => (known, tokens),
            _ => {
                let tokens = self.tokens_of(query.clone())?;
                (query, tokens)
            }
        };
        let PairFrame { before, between, after } = self.frame;
        let (_, query_tokens) = self.query.insert(query);
        let num_others = before.len() + query_tokens.len() + between.len() + after.len();
        if self.truncate && num_others < self.tokenizer.context_length {
            document.truncate(self.tokenizer.context_length - num_others);
        }
        Ok([before, query_tokens.as_slice(), between, &document, after].concat())
    }

    /// Control tokens have no meaning in users' texts.
    fn tokens_of(&self, text: String) -> Result<Vec<TokenId>, Error> {
        self.tokenizer.tokens_of(Prompt::Text { text, add_special: false, special: Special::Plain })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fake::FakeVocabulary;

    fn ids(text: &str) -> Vec<TokenId> {
        text.bytes().map(|byte| TokenId(i32::from(byte))).collect()
    }

    fn joined(query: &str, document: &str, context_length: usize, truncate: bool) -> Vec<TokenId> {
        let frame = PairFrame { before: ids("<"), between: ids("|"), after: ids(">") };
        let tokenizer = Tokenizer { vocabulary: &FakeVocabulary, context_length, bounds_texts: true };
        Joiner::new(tokenizer, &frame, truncate).join(query.to_owned(), document.to_owned()).unwrap()
    }

    #[test]
    fn the_frame_is_around_and_between() {
        assert_eq!(joined("who", "me", 40, false), ids("<who|me>"));
        assert_eq!(joined("", "", 40, false), ids("<|>"));
    }

    #[test]
    fn only_the_document_is_cut() {
        assert_eq!(joined("who", "somebody else", 10, true), ids("<who|some>"));
        assert_eq!(joined("who", "somebody else", 10, false), ids("<who|somebody else>"));
        assert_eq!(joined("who", "me", 6, true), ids("<who|me>"));
    }

    #[test]
    fn the_next_query_is_another_one() {
        let frame = PairFrame::default();
        let tokenizer = Tokenizer { vocabulary: &FakeVocabulary, context_length: 40, bounds_texts: true };
        let mut joiner = Joiner::new(tokenizer, &frame, false);
        let mut join = |query: &str| joiner.join(query.to_owned(), "x".to_owned()).unwrap();
        assert_eq!([join("a"), join("a"), join("b")], [ids("ax"), ids("ax"), ids("bx")]);
    }
}
