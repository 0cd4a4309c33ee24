//! Draws from a sequence's rows of logits, and adds the drawn tokens to its text.

use super::Output;
use super::state::present;
use crate::constraint::Settled;
use crate::error::Error;
use crate::event::{Delta, FinishReason, TokenRecord};
use crate::ids::TokenId;
use crate::model::Vocabulary;
use crate::sampler::{Bans, Sampled, Scratch, Words};

/// The rows of logits that a sequence draws from in a step.
pub(crate) struct Rows<'a> {
    /// The logits of the last pending token, and of each token of the draft.
    pub(crate) logits: Vec<&'a [f32]>,
    pub(crate) draft: &'a [TokenId],
}

/// The text that a draw continues.
pub(crate) struct Text<'a> {
    /// Prompt and output so far.
    pub(crate) tokens: &'a mut Vec<TokenId>,
    pub(crate) vocabulary: &'a dyn Vocabulary,
}

/// The result of drawing from a sequence's rows.
pub(crate) struct Drawn {
    pub(crate) delta: Delta,
    /// Number of the draft's tokens that equal the draws.
    pub(crate) num_accepted: usize,
    /// How the sequence ended, if it did.
    pub(crate) end: Result<Option<End>, Error>,
}

/// How a sequence ended.
pub(crate) struct End {
    pub(crate) reason: FinishReason,
    pub(crate) stop: Option<String>,
}

impl Drawn {
    /// The result of a draw that panicked: the state of the sequence is undefined.
    pub(crate) fn lost() -> Self {
        Self { delta: Delta::default(), num_accepted: 0, end: Err(Error::Internal) }
    }
}

impl Output {
    /// Draws from the first row, and from each further one whose draft equals what was drawn before it.
    pub(crate) fn draw(&mut self, rows: &Rows<'_>, mut text: Text<'_>, scratch: &mut Scratch) -> Drawn {
        let mut delta = Delta::default();
        let mut num_accepted = 0;
        let end = loop {
            let Some(logits) = rows.logits.get(num_accepted) else {
                break Err(Error::InvalidLogits);
            };
            let len = text.tokens.len();
            match self.draw_token(logits, &mut text, scratch, &mut delta) {
                Ok(None) => {}
                Ok(Some(end)) => break self.check().map(|()| Some(end)),
                Err(error) => break Err(error),
            }
            // One token, and those that a constraint forced after it; none if the token waits.
            let drawn = &text.tokens[len..];
            if drawn.is_empty() {
                break Ok(None);
            }
            let guesses = rows.draft[num_accepted..].iter();
            let num_right = guesses.zip(drawn).take_while(|(guess, token)| guess == token).count();
            num_accepted += num_right;
            if num_right < drawn.len() {
                break Ok(None);
            }
        };
        Drawn { delta, num_accepted, end }
    }

    /// Draws from a row of logits and takes the token, or what the constraint makes of it, into the
    /// text.
    fn draw_token(
        &mut self,
        logits: &[f32],
        text: &mut Text<'_>,
        scratch: &mut Scratch,
        delta: &mut Delta,
    ) -> Result<Option<End>, Error> {
        let bans_end = self.stops.bans_end(self.num_generated(text.tokens));
        let tokens = if bans_end { text.vocabulary.end_of_generation() } else { &[] };
        let left = self.num_left(text.tokens);
        let vocabulary = text.vocabulary;
        let piece = |token| vocabulary.piece(token, false);
        let words = Words { piece: &piece, ends: vocabulary.end_of_generation() };
        let Some(constraint) = present(&mut self.constraint)? else {
            let sampled = self.sampler.sample(logits, Bans { tokens, allowed: None }, words, scratch)?;
            return Ok(self.append(sampled, None, text, delta));
        };
        let allowed = Some(constraint.mask()?.words());
        let sampled = self.sampler.sample(logits, Bans { tokens, allowed }, words, scratch)?;
        let settled = constraint.settle(sampled.token, left)?;
        self.take(sampled, settled, text, delta)
    }

    /// Continues with the token that waits for its constraint.
    pub(crate) fn draw_held(&mut self, mut text: Text<'_>) -> Drawn {
        let mut delta = Delta::default();
        let end = match self.settle_held(&mut text, &mut delta) {
            Ok(Some(end)) => self.check().map(|()| Some(end)),
            other => other,
        };
        Drawn { delta, num_accepted: 0, end }
    }

    fn settle_held(&mut self, text: &mut Text<'_>, delta: &mut Delta) -> Result<Option<End>, Error> {
        let Some(constraint) = present(&mut self.constraint)? else { return Ok(None) };
        let Some(sampled) = self.held.take() else { return Ok(None) };
        let settled = constraint.settle_on()?;
        self.take(sampled, settled, text, delta)
    }

    /// Adds to the text what the constraint made of a token.
    fn take(
        &mut self,
        sampled: Sampled,
        settled: Settled,
        text: &mut Text<'_>,
        delta: &mut Delta,
    ) -> Result<Option<End>, Error> {
        match settled {
            Settled::Later => {
                self.held = Some(sampled);
                Ok(None)
            }
            Settled::Tail(tail) => Ok(Some(self.append_tail(&tail, FinishReason::Length, text, delta))),
            Settled::Token => {
                let is_finished =
                    present(&mut self.constraint)?.is_some_and(|constraint| constraint.is_finished());
                let end = is_finished.then_some(FinishReason::Stop);
                match self.append(sampled, end, text, delta) {
                    None => self.append_forced(text, delta),
                    ended => Ok(ended),
                }
            }
        }
    }

    /// Appends what must come next. Log-probabilities need a row of logits each, so nothing is forced
    /// if they are requested.
    fn append_forced(&mut self, text: &mut Text<'_>, delta: &mut Delta) -> Result<Option<End>, Error> {
        let left = self.num_left(text.tokens);
        let is_wanted = !self.has_logprobs;
        let Some(constraint) = present(&mut self.constraint)?.filter(|_| is_wanted) else {
            return Ok(None);
        };
        let forced = constraint.take_forced(left)?;
        let end = constraint.is_finished().then_some(FinishReason::Stop);
        let mut ended = None;
        for (index, &token) in forced.iter().enumerate() {
            let end = end.filter(|_| index + 1 == forced.len());
            ended = self.append(Sampled::forced(token), end, text, delta);
            if ended.is_some() {
                break;
            }
        }
        Ok(ended)
    }

    /// Appends the tokens that complete the document.
    pub(super) fn append_tail(
        &mut self,
        tail: &[TokenId],
        reason: FinishReason,
        text: &mut Text<'_>,
        delta: &mut Delta,
    ) -> End {
        for &token in tail {
            if let Some(end) = self.append(Sampled::forced(token), None, text, delta)
                && end.stop.is_some()
            {
                return end;
            }
        }
        End { reason, stop: None }
    }

    /// Appends a token: sampler, text and token list move together. `end` says that it is the last one.
    fn append(
        &mut self,
        sampled: Sampled,
        end: Option<FinishReason>,
        text: &mut Text<'_>,
        delta: &mut Delta,
    ) -> Option<End> {
        self.sampler.accept(&sampled, text.vocabulary.piece(sampled.token, true));
        let Sampled { token, logprobs, .. } = sampled;
        text.tokens.push(token);
        let ends = self.stops.ends_with(token, text.vocabulary);
        let bytes = if ends { &[] } else { text.vocabulary.piece(token, false) };
        let mut released = self.detokenizer.push(bytes);
        let end =
            self.end_after(end.or(ends.then_some(FinishReason::Stop)), released.stop, text.tokens.len());
        if matches!(&end, Some(End { stop: None, .. })) {
            released.text.push_str(&self.detokenizer.finish());
        }
        delta.tokens.push(TokenRecord { id: token, bytes: bytes.to_vec(), text: released.text, logprobs });
        end
    }

    fn end_after(&self, reason: Option<FinishReason>, stop: Option<usize>, num_tokens: usize) -> Option<End> {
        if let Some(index) = stop {
            let stop = self.stops.strings.get(index).cloned();
            return Some(End { reason: FinishReason::Stop, stop });
        }
        let is_full = num_tokens >= self.max_tokens();
        let reason = reason.or(is_full.then_some(FinishReason::Length))?;
        Some(End { reason, stop: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fake::FakeVocabulary;
    use crate::request::{GenerationRequest, RequestParts};

    fn output(parts: RequestParts, max_tokens: usize) -> Output {
        let text = Text { tokens: &mut Vec::new(), vocabulary: &FakeVocabulary };
        Output::new(&GenerationRequest::new(parts).unwrap(), 0, &text, max_tokens, None)
    }

    fn ids(text: &str) -> Vec<TokenId> {
        text.bytes().map(|byte| TokenId(i32::from(byte))).collect()
    }

    /// Draws from rows that each prefer a letter of `likely`.
    fn draw(output: &mut Output, tokens: &mut Vec<TokenId>, likely: &str, draft: &[TokenId]) -> Drawn {
        let row = |byte: u8| (0..258).map(|id| f32::from(u8::from(id == usize::from(byte)))).collect();
        let rows: Vec<Vec<f32>> = likely.bytes().map(row).collect();
        let rows = Rows { logits: rows.iter().map(Vec::as_slice).collect(), draft };
        output.draw(&rows, Text { tokens, vocabulary: &FakeVocabulary }, &mut Scratch::default())
    }

    #[test]
    fn a_draft_is_accepted_as_far_as_it_is_right() {
        let mut output = output(RequestParts::text("", 100), 100);
        let mut tokens = Vec::new();
        let drawn = draw(&mut output, &mut tokens, "abcd", &ids("abx"));
        assert_eq!((drawn.delta.text().as_str(), drawn.num_accepted), ("abc", 2));
        assert_eq!(tokens, ids("abc"));
        let drawn = draw(&mut output, &mut tokens, "de", &ids("d"));
        assert_eq!((drawn.delta.text().as_str(), drawn.num_accepted), ("de", 1));
    }

    #[test]
    fn the_budget_ends_a_text_within_a_draft() {
        let mut output = output(RequestParts::text("", 2), 2);
        let drawn = draw(&mut output, &mut Vec::new(), "abcd", &ids("abc"));
        assert_eq!((drawn.delta.text().as_str(), drawn.num_accepted), ("ab", 1));
        assert!(matches!(drawn.end, Ok(Some(End { reason: FinishReason::Length, stop: None }))));
    }

    #[test]
    fn a_stop_token_ends_the_text_and_is_no_part_of_it() {
        let mut parts = RequestParts::text("", 100);
        parts.stopping.stop_token_ids = ids("zyx");
        let mut output = output(parts, 100);
        let mut tokens = Vec::new();
        assert_eq!(draw(&mut output, &mut tokens, "a", &[]).delta.text(), "a");
        let drawn = draw(&mut output, &mut tokens, "y", &[]);
        assert_eq!(drawn.delta.text(), "");
        assert!(matches!(drawn.end, Ok(Some(End { reason: FinishReason::Stop, stop: None }))));
    }

    #[test]
    fn a_lost_constraint_is_an_error_and_not_free_text() {
        let mut output = output(RequestParts::text("", 100), 100);
        // The state that a panic in the middle of `work_ahead` leaves.
        output.constraint = Err(Error::Internal);
        output.work_ahead();
        let mut tokens = Vec::new();
        let drawn = draw(&mut output, &mut tokens, "a", &[]);
        assert!(matches!(drawn.end, Err(Error::Internal)));
        assert!(output.is_constrained() && !output.is_complete() && tokens.is_empty());
    }

    #[test]
    fn a_row_that_is_missing_is_an_error() {
        let mut output = output(RequestParts::text("", 100), 100);
        let drawn = draw(&mut output, &mut Vec::new(), "a", &ids("ab"));
        assert_eq!(drawn.num_accepted, 1);
        assert!(matches!(drawn.end, Err(Error::InvalidLogits)));
    }
}
