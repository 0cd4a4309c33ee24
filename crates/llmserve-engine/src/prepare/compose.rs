//! All tokens of a request: those of its session, and what it appends.

use crate::error::Error;
use crate::ids::TokenId;
use crate::request::{Prompt, Special};
use crate::session::{NextTurn, SessionMode, SessionTurn};

use super::Preparer;

/// A prefix for tokenizing a text, which is removed again: no token joins it with what follows.
const ANCHOR: &str = "\n";

impl Preparer {
    /// The tokens of a request that has its turn in a session.
    pub(super) fn compose(&self, prompt: Prompt, session: &SessionTurn) -> Result<Vec<TokenId>, Error> {
        let SessionTurn { turn, mode, .. } = session;
        let (mut tokens, is_templated) = turn.contents();
        let (Some(&last), SessionMode::Append | SessionMode::AppendTurn(_)) = (tokens.last(), mode) else {
            return self.tokens_of(prompt);
        };
        let appended = match (mode, prompt) {
            (SessionMode::AppendTurn(next), _) if is_templated => {
                self.text_after(last, &self.turn_after(last, next), Special::Marked)
            }
            (_, Prompt::Text { text, special, .. }) => self.text_after(last, &text, special),
            (_, prompt @ Prompt::Tokens(_)) => self.tokens_of(prompt),
        };
        tokens.extend(appended?);
        Ok(tokens)
    }

    fn turn_after(&self, last: TokenId, next: &NextTurn) -> String {
        let has_ended = self.vocabulary.is_end_of_generation(last);
        let end = if has_ended { &next.after_end } else { &next.end_of_turn };
        format!("{end}{}", next.turn)
    }

    /// The tokens of a text in the middle of a session. BOS and the like belong at its start only, and so does
    /// the space that `SentencePiece` puts before a text: "Good" and "bye" must not become "Good bye".
    fn text_after(&self, last: TokenId, text: &str, special: Special) -> Result<Vec<TokenId>, Error> {
        let tokens_of = |text: String| self.tokens_of(Prompt::Text { text, add_special: false, special });
        // After a control token that space is right: a whole text would have it there too.
        if !self.vocabulary.piece(last, false).is_empty() && self.puts_space_first()? {
            let anchor = tokens_of(ANCHOR.to_owned())?;
            let anchored = tokens_of(format!("{ANCHOR}{text}"))?;
            if let Some(tokens) = anchored.strip_prefix(anchor.as_slice()) {
                return Ok(tokens.to_vec());
            }
        }
        tokens_of(text.to_owned())
    }

    fn puts_space_first(&self) -> Result<bool, Error> {
        let first = self.vocabulary.tokenize("a", false, false)?.first().copied();
        Ok(first.is_some_and(|token| self.vocabulary.piece(token, false).starts_with(b" ")))
    }
}
