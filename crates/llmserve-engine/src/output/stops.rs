//! What ends a text, apart from its budget.

use crate::ids::TokenId;
use crate::model::Vocabulary;
use crate::request::StopParams;

/// The stop rules of one request.
pub(super) struct Stops {
    pub(super) strings: Vec<String>,
    /// Stop tokens, in order.
    tokens: Vec<TokenId>,
    ignores_end: bool,
    min_tokens: usize,
}

impl Stops {
    /// The stops of a request. A JSON document ends by itself only: stops could cut it short.
    pub(super) fn new(params: &StopParams, is_json: bool) -> Self {
        let (strings, mut tokens) = if is_json {
            (Vec::new(), Vec::new())
        } else {
            (params.stop.clone(), params.stop_token_ids.clone())
        };
        tokens.sort_unstable();
        Self { strings, tokens, ignores_end: params.ignore_eos, min_tokens: params.min_tokens as usize }
    }

    /// Whether end-of-generation tokens may not be drawn after `num_generated` tokens.
    pub(super) fn bans_end(&self, num_generated: usize) -> bool {
        self.ignores_end || num_generated < self.min_tokens
    }

    /// Whether the text ends with this token, which is then not part of it.
    pub(super) fn ends_with(&self, token: TokenId, vocabulary: &dyn Vocabulary) -> bool {
        vocabulary.is_end_of_generation(token) || self.tokens.binary_search(&token).is_ok()
    }
}
