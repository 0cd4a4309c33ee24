//! Looks for a tail of a constraint's present state, a slice of time after the other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use llmserve_json_tail::{Progress, Search};

use crate::constraint::grammar::{TAIL_FUEL, guarded};
use crate::constraint::state::Constraint;
use crate::ids::TokenId;

/// How long a search may hold up the other sequences of a step. Nobody notices a gap below some 100 ms; with
/// this one twenty documents can end at once.
///
/// Zero in tests: each look there takes one step, and all that waits does wait.
const SLICE: Duration = Duration::from_millis(if cfg!(test) { 0 } else { 4 });

/// Maximum number of ends of a tail that are tried.
const MAX_ENDS: usize = 32;

/// Bytes that are followed between two looks at the clock: about half a millisecond.
const PIECE: usize = 512;

/// The outcome of a look.
#[derive(Clone)]
pub(super) enum Look {
    /// The shortest tokens that were found to complete the text, if some were.
    Done(Option<Vec<TokenId>>),
    Paused,
}

impl Constraint {
    /// Drops what was found out about the present state, which is about to change.
    pub(in crate::constraint) fn forget_look(&mut self) {
        self.rescue.look = None;
        if let Some((mut search, _)) = self.rescue.search.take()
            && let Some(bytes) = &mut self.rescue.bytes
        {
            search.unwind(bytes, self.written.walk());
        }
    }

    /// Looks for a tail of the present state, for a [`SLICE`]; the next call goes on.
    pub(super) fn look(&mut self) -> Look {
        if let Some(look) = &self.rescue.look {
            return look.clone();
        }
        let look = self.look_for_tail();
        self.rescue.look = Some(look.clone()).filter(|look| matches!(look, Look::Done(_)));
        look
    }

    fn look_for_tail(&mut self) -> Look {
        let end = Instant::now() + SLICE;
        if self.rescue.search.is_none() {
            if self.check().is_err() {
                return Look::Done(None);
            }
            if self.is_complete() {
                return Look::Done(Some(Vec::new()));
            }
            if let Some(known) = self.witness_or_guess() {
                return Look::Done(Some(known));
            }
            let fuel = TAIL_FUEL / (1 + self.rescue.num_failures);
            self.rescue.search = Some((Search::new(fuel), self.written.text().len()));
        }
        // At least one step, so that the search ends.
        let mut is_first = true;
        match self.search(&mut || std::mem::take(&mut is_first) || Instant::now() < end) {
            Progress::Paused => Look::Paused,
            Progress::Nothing => {
                self.rescue.num_failures += usize::from(!self.is_json());
                Look::Done(None)
            }
            Progress::Found(text) => Look::Done(self.completing(&text)),
        }
    }

    /// The shortest whole text at the beginning; else the first of the schema's guesses that holds.
    fn witness_or_guess(&mut self) -> Option<Vec<TokenId>> {
        if self.written.text().is_empty()
            && let Some(witness) = self.grammar.witness()
        {
            return Some(to_ids(witness));
        }
        let Some(walk) = self.written.walk() else { return self.end_of_latest() };
        let guesses = walk.closings();
        guesses.iter().find_map(|guess| self.completing(guess))
    }

    /// The shortest end of the latest tail that completes the text.
    fn end_of_latest(&mut self) -> Option<Vec<TokenId>> {
        let grammar = Arc::clone(&self.grammar);
        let latest: Vec<u32> = self.rescue.latest.iter().map(|token| token.0 as u32).collect();
        let ends = (0..latest.len()).rev().take(MAX_ENDS).map(|at| &latest[at..]);
        ends.into_iter().find_map(|end| {
            let is_whole = self.ask(|matcher| Ok(grammar.completes(matcher, end))).unwrap_or(false);
            is_whole.then(|| to_ids(end))
        })
    }

    /// The tokens of a text, if it completes the document.
    fn completing(&mut self, text: &[u8]) -> Option<Vec<TokenId>> {
        let grammar = Arc::clone(&self.grammar);
        let tokens = grammar.environment().tokenize(text);
        let is_whole = self.ask(|matcher| Ok(grammar.completes(matcher, &tokens))).unwrap_or(false);
        is_whole.then(|| to_ids(&tokens))
    }

    /// Continues the search.
    fn search(&mut self, goes_on: &mut dyn FnMut() -> bool) -> Progress {
        let Some((mut search, len)) = self.rescue.search.take() else { return Progress::Nothing };
        let Some(mut bytes) = self.rescue.bytes.take().or_else(|| self.grammar.fresh_bytes().ok()) else {
            return Progress::Nothing;
        };
        for piece in self.written.text()[self.rescue.num_followed..len].chunks(PIECE) {
            if !goes_on() {
                (self.rescue.search, self.rescue.bytes) = (Some((search, len)), Some(bytes));
                return Progress::Paused;
            }
            if !bytes.feed(piece) {
                self.rescue.num_followed = 0;
                return Progress::Nothing;
            }
            self.rescue.num_followed += piece.len();
        }
        let progress = guarded(|| Ok(search.advance(&mut bytes, self.written.walk(), goes_on)));
        match progress {
            Ok(progress) if !bytes.is_broken() => {
                if progress == Progress::Paused {
                    self.rescue.search = Some((search, len));
                }
                self.rescue.bytes = Some(bytes);
                progress
            }
            Ok(_) | Err(_) => {
                self.rescue.num_followed = 0;
                search.unwind(&mut bytes, self.written.walk());
                Progress::Nothing
            }
        }
    }
}

pub(super) fn to_ids(tokens: &[u32]) -> Vec<TokenId> {
    tokens.iter().map(|&id| TokenId(id as i32)).collect()
}

#[cfg(test)]
impl Constraint {
    /// The tail of the present state, however long a look for it takes.
    pub(in crate::constraint) fn tail(&mut self) -> Option<Vec<TokenId>> {
        loop {
            if let Look::Done(tail) = self.look() {
                return tail;
            }
        }
    }
}
