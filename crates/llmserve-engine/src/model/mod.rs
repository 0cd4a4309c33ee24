//! The parts of a model that the engine needs: a context that decodes batches, and a vocabulary.
//!
//! The only place with llama.cpp's types is [`llama`]; [`fake`] is a deterministic stand-in for
//! tests of everything above.

mod embedding;
pub mod fake;
pub(crate) mod llama;

use crate::config::KvLayout;
use crate::error::Error;
use crate::ids::{SlotId, TokenId};

pub use embedding::{EmbeddingContext, EmbeddingLimits};

/// One row of a batch: a token that is computed at a position of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The sequence's place in the context.
    pub slot: SlotId,
    /// The token.
    pub token: TokenId,
    /// The token's position, counted from 0.
    pub position: u32,
    /// Whether this row's logits are wanted.
    pub output: bool,
}

/// The limits of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextLimits {
    /// Number of slots.
    pub num_slots: usize,
    /// Maximum number of tokens in one sequence.
    pub context_length: usize,
    /// Cells of all slots together.
    pub num_cells: usize,
    /// How cells are shared out.
    pub layout: KvLayout,
    /// Maximum number of rows in one batch.
    pub batch_size: usize,
    /// Maximum number of rows in one batch whose logits are wanted; at least one for each slot.
    pub max_outputs: usize,
    /// Compute threads.
    pub num_threads: usize,
    /// Whether a slot can be trimmed at any position; sliding windows and recurrent states cannot.
    pub trims_anywhere: bool,
    /// Maximum number of tokens of a slot's last batch that can be taken back.
    pub max_rollback: usize,
    /// Whether a batch is computed in parts, each of as many rows for every slot, and of adjacent slots
    /// only. llama.cpp does so for separate pools and for recurrent states.
    pub splits_batches: bool,
    /// Tokens of a tile: kernels work on whole tiles where a sequence has as many rows, and round otherwise than
    /// those for fewer rows. 1: there is no such difference.
    pub tile: usize,
    /// Whether each sequence is computed by itself, so that no other one changes its rounding.
    pub is_deterministic: bool,
}

/// Why a batch was not computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// No cells were left. The context is unchanged.
    KvFull,
    /// The computation failed; the slots in the batch contain an undefined part of it.
    Failed(i32),
}

/// The part of a context that computes, and moves no cells of its own accord: batches, their logits, and drafts.
///
/// A slot has the cells of one sequence at the positions `0..n`. Rows for a slot must continue
/// at position `n`.
pub trait Compute {
    /// The limits of the context.
    fn limits(&self) -> &ContextLimits;

    /// Computes the rows and adds their cells to the slots. Rows of one slot are adjacent and in
    /// order.
    ///
    /// # Errors
    /// [`DecodeError`] says whether the slots are unchanged.
    fn decode(&mut self, rows: &[Row]) -> Result<(), DecodeError>;

    /// The logits of row `index` of the last batch, one value per token of the vocabulary.
    fn logits(&self, index: usize) -> Option<&[f32]>;

    /// Makes the draft context of the model's own head, if there is none. Slots that have tokens by then
    /// cannot draft until those are computed again.
    ///
    /// # Errors
    /// [`Error::NoDraftHead`], [`Error::DraftContext`].
    fn open_head(&mut self) -> Result<(), Error> {
        Err(Error::NoDraftHead)
    }

    /// Frees the draft context.
    fn close_head(&mut self) {}

    /// Whether there is a draft context that has followed all tokens of the slot.
    fn can_draft(&self, _slot: SlotId) -> bool {
        false
    }

    /// Has the draft context follow the tokens of slots, if many are left. A draft does so too, for what it continues
    /// from.
    fn take_in(&mut self, _slots: &[SlotId]) {}

    /// Guesses with the head, for all slots together: a draft for each request, which may be shorter than
    /// requested, or empty.
    fn draft(&mut self, requests: &[DraftRequest]) -> Vec<Vec<TokenId>> {
        vec![Vec::new(); requests.len()]
    }
}

/// A model's context: its computation, and its cells, which have one owner in the engine.
pub trait Context: Compute {
    /// Number of tokens whose cells are in a slot.
    fn num_tokens(&self, slot: SlotId) -> usize;

    /// Whether [`Self::trim`] would leave the slot exactly as if only the tokens before `position`
    /// had been computed.
    fn can_trim(&self, slot: SlotId, position: usize) -> bool;

    /// Removes the cells from `position` on. False: it could not; the slot must be cleared.
    fn trim(&mut self, slot: SlotId, position: usize) -> bool;

    /// Trims a slot for a sequence that has its first `position` tokens, in such a way that it can draft;
    /// returns how many are left, one less if the last one must be computed again for that. `None`: it could
    /// not; the slot must be cleared.
    fn trim_for_drafts(&mut self, slot: SlotId, position: usize) -> Option<usize> {
        self.trim(slot, position).then_some(position)
    }

    /// Removes all cells of a slot.
    fn clear(&mut self, slot: SlotId);

    /// Copies the slot `from` to `to`; of a sliding window only what later rows can see, so that it
    /// may not be trimmed. False: it could not, and `to` is empty.
    fn copy(&mut self, from: SlotId, to: SlotId) -> bool;

    /// How many bytes [`Self::save`] would give.
    fn state_bytes(&mut self, slot: SlotId) -> usize;

    /// The slot's state as bytes that [`Self::restore`] takes, or `None` if it is larger than `max_bytes` or that
    /// failed.
    fn save(&mut self, slot: SlotId, max_bytes: usize) -> Option<Vec<u8>>;

    /// Restores the saved state of `num_tokens` tokens into an empty slot. False: it could not, or the state is
    /// not one of the positions `0..num_tokens`, and the slot is empty.
    fn restore(&mut self, slot: SlotId, state: &[u8], num_tokens: usize) -> bool;

    /// The tokens whose cells are in a slot, if the context can tell ([`Self::tells_tokens`]).
    fn tokens(&self, _slot: SlotId) -> Option<&[TokenId]> {
        None
    }

    /// Whether the context knows the tokens of its cells, as the fake one does: the engine then compares its books
    /// with them whenever it is idle.
    fn tells_tokens(&self) -> bool {
        false
    }
}

/// A request for a draft that continues a slot's tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DraftRequest {
    /// The slot.
    pub slot: SlotId,
    /// The token that follows the slot's tokens, not computed yet.
    pub token: TokenId,
    /// The token's position: the number of the slot's tokens.
    pub position: u32,
    /// Maximum number of tokens to draft, at least 1.
    pub max: usize,
}

/// A token that is found in a text by its own text, before the rest is tokenized.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecialToken {
    /// The token.
    pub id: TokenId,
    /// The token's text, not empty.
    pub text: String,
    /// Whether it is found only where control tokens are read; else it is found in any text.
    pub is_control: bool,
    /// Whether white space before it is dropped.
    pub strips_left: bool,
    /// Whether white space after it is dropped.
    pub strips_right: bool,
}

/// The tokens that join two texts to one, which a model was trained to judge together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PairFrame {
    /// Before the first text.
    pub before: Vec<TokenId>,
    /// Between the texts.
    pub between: Vec<TokenId>,
    /// Behind the second text.
    pub after: Vec<TokenId>,
}

/// A model's vocabulary.
pub trait Vocabulary: Send + Sync {
    /// Number of tokens.
    fn size(&self) -> usize;

    /// The tokens that are found in a text before it is tokenized, as whole words.
    fn special_tokens(&self) -> &[SpecialToken] {
        &[]
    }

    /// Turns text into tokens. With `add_special` the vocabulary's own frame (BOS) is added, never twice;
    /// with `parse_special` the text of control tokens becomes control tokens.
    ///
    /// # Errors
    /// [`Error::Tokenize`] if llama.cpp refuses the text.
    fn tokenize(&self, text: &str, add_special: bool, parse_special: bool) -> Result<Vec<TokenId>, Error>;

    /// The tokens that join two texts to one.
    fn pair_frame(&self) -> PairFrame {
        PairFrame::default()
    }

    /// The bytes of a token; a control token has none unless `render_special`, and an unknown id has
    /// none at all.
    fn piece(&self, token: TokenId, render_special: bool) -> &[u8];

    /// Maximum number of bytes that one token stands for.
    fn max_piece_bytes(&self) -> usize;

    /// The tokens that end a generation.
    fn end_of_generation(&self) -> &[TokenId];

    /// Whether a token ends a generation.
    fn is_end_of_generation(&self, token: TokenId) -> bool {
        self.end_of_generation().contains(&token)
    }
}
