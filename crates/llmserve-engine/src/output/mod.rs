//! Turns rows of logits into text: mask, sample, settle, detokenize, for all sequences of a step.
//!
//! The engine thread hands over the logits and each sequence's [`Output`], waits, and applies the
//! result. A draw depends on its own row and sequence alone, so any thread may make it.
//!
//! - `pool`: the threads, and how work is shared among them and the engine thread.
//! - `state`: the output of one sequence. `draw`: drawing from its rows. `stops`: where its text ends.
//! - `prompt`: how likely the tokens of its prompt were.

mod draw;
mod pool;
mod prompt;
mod state;
mod stops;

pub(crate) use draw::{Drawn, End, Rows, Text};
pub(crate) use pool::Pool;
pub(crate) use prompt::{PromptScores, ScoredRow};
pub(crate) use state::Output;
