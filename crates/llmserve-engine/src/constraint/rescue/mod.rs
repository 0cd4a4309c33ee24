//! A *rescue tail*: a text that completes a document from any point, so that constrained output can
//! be closed within its budget.
//!
//! 1. [`Outline`] reads a JSON schema: `read` turns its text into sources, `nodes` into places, each
//!    with the shapes that a value there may have, `witness` finds each place's shortest document.
//! 2. `walk` follows a partial document along the places, `close` ends what is open.
//! 3. [`find_tail`] lets a `ByteJudge` choose among these guesses, and searches with it where none
//!    holds. Grammars other than JSON are searched alone.

mod automaton;
mod bounds;
mod byte_matcher;
mod close;
mod combine;
mod error;
mod format;
mod grammar;
mod judge;
mod members;
mod nodes;
mod number;
mod outline;
mod pattern;
mod quoting;
mod read;
mod search;
mod shape;
mod source;
mod text;
mod walk;
mod witness;

#[cfg(test)]
mod tests;

pub(crate) use byte_matcher::ByteMatcher;
pub(crate) use grammar::for_grammar;
#[cfg(test)]
use judge::ByteJudge;
pub(crate) use outline::Outline;
pub(crate) use search::find_tail;
