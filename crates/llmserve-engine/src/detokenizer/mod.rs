//! The bytes of tokens to the text that may be shown.
//!
//! Two things hold text back: a character whose bytes are not all there, and the beginning of a
//! stop string. Nothing of a stop string is ever released.

mod stop;
#[cfg(test)]
mod tests;
mod utf8;

use std::collections::VecDeque;

use self::stop::{START, State, StopMatch, StopStrings};
use self::utf8::Utf8Decoder;

/// The most pushes that [`Detokenizer::rollback`] takes back.
pub const MAX_ROLLBACK: usize = 64;

/// The text of one sequence, as its tokens come in.
///
/// It keeps the text that is held back (shorter than the longest stop string) and a few words for
/// each of the last [`MAX_ROLLBACK`] pushes, and nothing of the text that was released.
#[derive(Debug)]
pub struct Detokenizer {
    stops: Option<StopStrings>,
    decoder: Utf8Decoder,
    state: State,
    /// The text that is the beginning of a stop string.
    held: String,
    stopped: bool,
    /// The last pushes, the newest last.
    undo: VecDeque<Undo>,
}

/// What a token released.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Released {
    /// The text that may be shown now.
    pub text: String,
    /// The index of the stop string that is complete. Nothing follows.
    pub stop: Option<usize>,
}

/// What was before a push.
#[derive(Debug, Clone, Copy)]
struct Undo {
    decoder: Utf8Decoder,
    state: State,
    stopped: bool,
    held_len: usize,
    /// The bytes that the push released.
    num_released: usize,
}

impl Detokenizer {
    /// For a text that ends before the first of these strings. Empty strings are passed over.
    #[must_use]
    pub fn new(stop: &[String]) -> Self {
        Self {
            stops: StopStrings::new(stop),
            decoder: Utf8Decoder::default(),
            state: START,
            held: String::new(),
            stopped: false,
            undo: VecDeque::new(),
        }
    }

    /// Takes the bytes of the next token, which may be none, and gives the text that is certain
    /// now. After a stop string there is none.
    ///
    /// The stop string that ends first counts; of several that end together the one that starts
    /// first, and of equal ones the first in the list.
    pub fn push(&mut self, bytes: &[u8]) -> Released {
        let before = self.checkpoint();
        let released = if self.stopped { Released::default() } else { self.release(bytes) };
        self.remember(Undo { num_released: released.text.len(), ..before });
        released
    }

    /// The end without a stop string: gives all text that is held back, with U+FFFD for an
    /// incomplete character. After a stop string there is none. Pushes before it cannot be taken
    /// back any more.
    pub fn finish(&mut self) -> String {
        self.undo.clear();
        self.state = START;
        let mut text = std::mem::take(&mut self.held);
        self.decoder.finish(&mut text);
        if self.stopped { String::new() } else { text }
    }

    /// Takes back the last `n` pushes, as if they had never been.
    ///
    /// # Errors
    /// The bytes of text that these pushes released, their own or held back from before them:
    /// released text cannot be taken back. Likewise where more than [`MAX_ROLLBACK`] pushes, or
    /// more than there were since the start or [`Detokenizer::finish`], are to be taken back; the
    /// bytes are then those of the pushes that are known, and may be 0. Nothing is changed.
    pub fn rollback(&mut self, n: usize) -> Result<(), usize> {
        let num_kept = self.undo.len().saturating_sub(n);
        let num_released = self.undo.range(num_kept..).map(|undo| undo.num_released).sum();
        if n > self.undo.len() || num_released > 0 {
            return Err(num_released);
        }
        if let Some(&Undo { decoder, state, stopped, held_len, .. }) = self.undo.get(num_kept) {
            // Nothing was released, so held text was only added to.
            self.held.truncate(held_len);
            (self.decoder, self.state, self.stopped) = (decoder, state, stopped);
        }
        self.undo.truncate(num_kept);
        Ok(())
    }

    fn release(&mut self, bytes: &[u8]) -> Released {
        let held_len = self.held.len();
        let mut text = std::mem::take(&mut self.held);
        self.decoder.decode(bytes, &mut text);
        let Some(stops) = &self.stops else {
            return Released { text, stop: None };
        };
        if let Some(found) = stops.search(&mut self.state, &text.as_bytes()[held_len..]) {
            return self.stop(found, text, held_len);
        }
        let num_released = text.len() - stops.held_len(self.state);
        self.held = if num_released == 0 { std::mem::take(&mut text) } else { text.split_off(num_released) };
        Released { text, stop: None }
    }

    /// Releases what comes before the stop string that was found in the text after `held_len`.
    fn stop(&mut self, found: StopMatch, mut text: String, held_len: usize) -> Released {
        self.stopped = true;
        let start = held_len + found.end - found.len;
        if start == 0 {
            // This can be taken back: the text stays held.
            text.truncate(held_len);
            self.held = std::mem::take(&mut text);
        } else {
            text.truncate(start);
        }
        Released { text, stop: Some(found.index) }
    }

    fn checkpoint(&self) -> Undo {
        Undo {
            decoder: self.decoder,
            state: self.state,
            stopped: self.stopped,
            held_len: self.held.len(),
            num_released: 0,
        }
    }

    fn remember(&mut self, undo: Undo) {
        if self.undo.len() == MAX_ROLLBACK {
            self.undo.pop_front();
        }
        self.undo.push_back(undo);
    }
}
