//! Finds *rescue tails*: texts that complete a JSON document from any byte on, so that constrained output
//! can be closed within its budget.
//!
//! 1. [`Normal::new`] rewrites a JSON schema so that few keywords are left. [`Outline::compile`] reads it:
//!    `read` turns its text into sources, by the table in `keywords`, `nodes` into places, each with the shapes that a value there may have, and `witness`
//!    finds each place's shortest document. `language` computes with patterns: "and", "or" and "not".
//! 2. [`Walk`] follows a document along the places while it is written ([`Walk::feed`], [`Walk::rollback`]);
//!    [`Walk::closings`] guesses how it could end. That costs what the document's depth and the schema
//!    ask, however long the document is. `unique` knows which items an array has already, and `variants` writes
//!    values that differ from each other.
//! 3. The caller's matcher judges the guesses. If it accepts none, a [`Search`] asks it byte by byte
//!    ([`ByteJudge`]), and `nearest` the shortest texts first. For grammars other than JSON there is only the search.
//!
//! [`Outline::grammar`] gives the schema that such a matcher should compile: `cells` tells apart the patterns of names.

mod apart;
mod automaton;
mod budget;
mod cells;
mod close;
mod combination;
mod combine;
mod ecma;
mod error;
mod format;
mod grammar;
mod judge;
mod keywords;
mod language;
mod members;
mod nearest;
mod nodes;
mod normalize;
mod number;
mod outline;
mod pattern;
mod quoting;
mod read;
mod rewrite;
mod scan;
mod search;
mod shape;
mod source;
mod text;
mod threads;
mod unique;
mod variants;
mod walk;
mod witness;

#[cfg(test)]
mod tests;

pub use error::SchemaError;
pub use judge::ByteJudge;
pub use keywords::{escape, for_each_subschema};
pub use normalize::{Normal, Objects};
pub use outline::Outline;
pub use rewrite::for_validator;
pub use scan::numbers;
pub use search::{Progress, Search, find_tail};
pub use walk::Walk;
