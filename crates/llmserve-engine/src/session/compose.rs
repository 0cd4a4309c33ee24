//! A request's whole tokens: those of its session, and what it appends.

use crate::error::Error;
use crate::ids::TokenId;
use crate::prepare::Preparer;
use crate::request::{Prompt, Special};

use super::{NextTurn, SessionMode, Turn};

impl Preparer {
    /// The tokens of a request that has its turn in a session.
    pub(crate) fn compose(
        &self,
        prompt: Prompt,
        mode: &SessionMode,
        turn: &Turn,
    ) -> Result<Vec<TokenId>, Error> {
        let (mut tokens, is_templated) = turn.contents();
        let appended = match mode {
            SessionMode::Replace => return self.tokens_of(prompt),
            SessionMode::Append | SessionMode::AppendTurn(_) if tokens.is_empty() => {
                return self.tokens_of(prompt);
            }
            SessionMode::AppendTurn(next) if is_templated => self.turn_tokens(next, &tokens)?,
            SessionMode::Append | SessionMode::AppendTurn(_) => self.tokens_of(without_frame(prompt))?,
        };
        tokens.extend(appended);
        Ok(tokens)
    }

    fn turn_tokens(&self, next: &NextTurn, tokens: &[TokenId]) -> Result<Vec<TokenId>, Error> {
        let has_ended = tokens.last().is_some_and(|&last| self.vocabulary.is_end_of_generation(last));
        let end = if has_ended { &next.after_end } else { &next.end_of_turn };
        self.tokens_of(template_text(format!("{end}{}", next.turn)))
    }
}

/// BOS and the like stand at the start of a session only.
fn without_frame(prompt: Prompt) -> Prompt {
    match prompt {
        Prompt::Text { text, special, .. } => Prompt::Text { text, add_special: false, special },
        Prompt::Tokens(_) => prompt,
    }
}

/// How texts of a chat template are tokenized in the middle of a session.
fn template_text(text: String) -> Prompt {
    Prompt::Text { text, add_special: false, special: Special::Marked }
}
