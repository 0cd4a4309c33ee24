//! Turns the bytes of tokens into text that may be shown.
//!
//! Two things hold text back: a character whose bytes are not all there, and the beginning of a
//! stop string. Nothing of a stop string is ever released.

mod stop;
#[cfg(test)]
mod tests;
mod utf8;

pub(crate) use self::stop::{START, State, StopStrings};
use self::utf8::Utf8Decoder;

/// The text of one sequence, as its tokens come in.
///
/// It keeps the text that is held back, which is shorter than the longest stop string once a token has come,
/// and nothing of the text that was released.
#[derive(Debug)]
pub struct Detokenizer {
    stops: Option<StopStrings>,
    decoder: Utf8Decoder,
    state: State,
    /// The text that is not released: the beginning of a stop string, or text from before the first token.
    held: String,
    /// How much of it was searched for stop strings.
    num_searched: usize,
    stopped: bool,
}

/// What a token released.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Released {
    /// The text that may be shown now.
    pub text: String,
    /// The index of the stop string that is complete. Nothing follows.
    pub stop: Option<usize>,
}

impl Detokenizer {
    /// A detokenizer whose text ends before the first of these strings. Empty strings are ignored.
    #[must_use]
    pub fn new(stop: &[String]) -> Self {
        Self::after(&[], stop)
    }

    /// Like [`Self::new`], with bytes from before the first token, whose text comes with the first token's.
    #[must_use]
    pub fn after(begun: &[u8], stop: &[String]) -> Self {
        let (mut decoder, mut held) = (Utf8Decoder::default(), String::new());
        decoder.decode(begun, &mut held);
        Self { stops: StopStrings::new(stop), decoder, state: START, held, num_searched: 0, stopped: false }
    }

    /// Takes the bytes of the next token, which may be none, and gives the text that is certain
    /// now. After a stop string there is none.
    ///
    /// The stop string that ends first counts; of several that end together the one that starts
    /// first, and of equal ones the first in the list.
    pub fn push(&mut self, bytes: &[u8]) -> Released {
        if self.stopped {
            return Released::default();
        }
        let num_searched = std::mem::take(&mut self.num_searched);
        let mut text = std::mem::take(&mut self.held);
        self.decoder.decode(bytes, &mut text);
        let Some(stops) = &self.stops else {
            return Released { text, stop: None };
        };
        if let Some(found) = stops.search(&mut self.state, &text.as_bytes()[num_searched..]) {
            self.stopped = true;
            text.truncate(num_searched + found.end - found.len);
            return Released { text, stop: Some(found.index) };
        }
        let num_released = text.len() - stops.held_len(self.state);
        self.held = if num_released == 0 { std::mem::take(&mut text) } else { text.split_off(num_released) };
        self.num_searched = self.held.len();
        Released { text, stop: None }
    }

    /// The end without a stop string: gives all text that is held back, with U+FFFD for an
    /// incomplete character. After a stop string there is none.
    pub fn finish(&mut self) -> String {
        if self.stopped {
            return String::new();
        }
        self.state = START;
        let mut text = std::mem::take(&mut self.held);
        self.decoder.finish(&mut text);
        text
    }
}
