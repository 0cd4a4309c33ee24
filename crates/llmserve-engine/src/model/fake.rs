//! A deterministic model without weights, for tests and benches of everything above llama.cpp.
//!
//! The next token depends on every cell of the slot, so that a wrong cache shows in the text, and
//! the context refuses what llama.cpp would compute wrongly (a gap in the positions).

use super::{Compute, Context, ContextLimits, DecodeError, DraftRequest, Row, Vocabulary};
use crate::config::KvLayout;
use crate::error::Error;
use crate::ids::{SlotId, TokenId};

/// Tokens 0 to 255 are bytes; this one ends a generation.
pub const END: TokenId = TokenId(256);
/// A control token without text.
pub const CONTROL: TokenId = TokenId(257);
/// Number of tokens.
pub const VOCABULARY_SIZE: usize = 258;

/// The bytes that tokens stand for.
static BYTES: [u8; 256] = {
    let mut bytes = [0; 256];
    let mut id = 0;
    while id < bytes.len() {
        bytes[id] = id as u8;
        id += 1;
    }
    bytes
};

/// How a fake context keeps its cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// Any part can be removed from the end.
    Attention,
    /// Only the last `n` cells are kept: it can be cut back only within them.
    SlidingWindow(usize),
    /// A state that cannot be cut back at all.
    Recurrent,
}

/// A context that computes hashes.
#[derive(Debug)]
pub struct FakeContext {
    limits: ContextLimits,
    memory: Memory,
    slots: Vec<Vec<TokenId>>,
    logits: Vec<Option<Vec<f32>>>,
    fail_next: Option<i32>,
    has_head: bool,
    /// For each slot, how many of its tokens the draft context has followed, while there is one.
    followed: Option<Vec<usize>>,
}

impl FakeContext {
    /// An empty context.
    #[must_use]
    pub fn new(limits: ContextLimits, memory: Memory) -> Self {
        Self {
            limits: ContextLimits {
                trims_anywhere: memory == Memory::Attention,
                splits_batches: memory == Memory::Recurrent || limits.layout == KvLayout::PerSequence,
                ..limits
            },
            memory,
            slots: vec![Vec::new(); limits.num_slots],
            logits: Vec::new(),
            fail_next: None,
            has_head: false,
            followed: None,
        }
    }

    /// Gives the model a head that drafts.
    #[must_use]
    pub fn with_head(self) -> Self {
        Self { has_head: true, ..self }
    }

    /// Makes the next batch fail with a code.
    pub fn fail_next(&mut self, code: i32) {
        self.fail_next = Some(code);
    }

    fn capacity_left(&self, slot: SlotId) -> usize {
        match self.limits.layout {
            KvLayout::Unified | KvLayout::Auto => {
                let used: usize = self.slots.iter().map(Vec::len).sum();
                self.limits.num_cells.saturating_sub(used)
            }
            KvLayout::PerSequence => {
                let own = self.limits.num_cells / self.limits.num_slots;
                own.saturating_sub(self.slots[slot.index()].len())
            }
        }
    }
}

/// Limits of a small fake context.
#[must_use]
pub fn limits(num_slots: usize, context_length: usize, layout: KvLayout, num_cells: usize) -> ContextLimits {
    ContextLimits {
        num_slots,
        context_length,
        num_cells,
        layout,
        batch_size: 64,
        max_outputs: (9 * num_slots).max(num_slots + 16).min(64).max(num_slots),
        num_threads: 1,
        trims_anywhere: true,
        max_rollback: usize::MAX,
        splits_batches: false,
        tile: 1,
        is_deterministic: false,
    }
}

/// What the fake head guesses after a history: the model's greedy token, but for about one in four.
#[must_use]
pub fn drafted_after(history: &[TokenId]) -> TokenId {
    let logits = logits_after(history);
    let best = (0..logits.len()).reduce(|a, b| if logits[b] > logits[a] { b } else { a }).unwrap_or(0);
    let is_wrong = mix(logits[0].to_bits().into()).is_multiple_of(4);
    TokenId(if is_wrong { (best as i32 + 1) % 128 } else { best as i32 })
}

/// The logits after a history: pseudo-random, with clear margins, mostly printable text.
#[must_use]
pub fn logits_after(history: &[TokenId]) -> Vec<f32> {
    let mut state = history.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, token| {
        (hash ^ u64::from(token.0 as u32)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut logits: Vec<f32> = (0..VOCABULARY_SIZE)
        .map(|token| {
            state = mix(state);
            let noise = (state >> 40) as f32 / (1 << 24) as f32;
            if (0x20..0x7f).contains(&token) { noise * 8.0 } else { noise }
        })
        .collect();
    // About one text in forty tokens ends by itself.
    logits[END.0 as usize] = if mix(state ^ 0xe0d).is_multiple_of(40) { 20.0 } else { -20.0 };
    logits[CONTROL.0 as usize] = -20.0;
    logits
}

fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl FakeContext {
    fn follow_at_most(&mut self, slot: SlotId, position: usize) {
        if let Some(followed) = &mut self.followed {
            followed[slot.index()] = followed[slot.index()].min(position);
        }
    }
}

impl Compute for FakeContext {
    fn limits(&self) -> &ContextLimits {
        &self.limits
    }

    fn decode(&mut self, rows: &[Row]) -> Result<(), DecodeError> {
        if let Some(code) = self.fail_next.take() {
            return Err(DecodeError::Failed(code));
        }
        if rows.is_empty() || rows.len() > self.limits.batch_size {
            return Err(DecodeError::Failed(-1));
        }
        if rows.iter().filter(|row| row.output).count() > self.limits.max_outputs {
            return Err(DecodeError::Failed(-2));
        }
        for (slot, own_rows) in rows_by_slot(rows) {
            if own_rows > self.capacity_left(slot) {
                return Err(DecodeError::KvFull);
            }
        }
        if matches!(self.limits.layout, KvLayout::Unified | KvLayout::Auto)
            && rows.len() > self.capacity_left(SlotId(0))
        {
            return Err(DecodeError::KvFull);
        }
        self.logits.clear();
        for row in rows {
            let cells = &mut self.slots[row.slot.index()];
            if cells.len() != row.position as usize {
                return Err(DecodeError::Failed(-1));
            }
            if let Some(followed) = &mut self.followed
                && followed[row.slot.index()] == cells.len()
            {
                followed[row.slot.index()] += 1;
            }
            cells.push(row.token);
            self.logits.push(row.output.then(|| logits_after(cells)));
        }
        Ok(())
    }

    fn logits(&self, index: usize) -> Option<&[f32]> {
        self.logits.get(index)?.as_deref()
    }

    fn open_head(&mut self) -> Result<(), Error> {
        if !self.has_head {
            return Err(Error::NoDraftHead);
        }
        self.followed.get_or_insert_with(|| vec![0; self.limits.num_slots]);
        Ok(())
    }

    fn close_head(&mut self) {
        self.followed = None;
    }

    fn can_draft(&self, slot: SlotId) -> bool {
        self.followed
            .as_ref()
            .is_some_and(|followed| followed[slot.index()] == self.slots[slot.index()].len())
    }

    fn draft(&mut self, requests: &[DraftRequest]) -> Vec<Vec<TokenId>> {
        let draft = |request: &DraftRequest| {
            let mut history = self.slots[request.slot.index()].clone();
            if !self.can_draft(request.slot) || history.len() != request.position as usize {
                return Vec::new();
            }
            history.push(request.token);
            let next = |_| {
                let token = drafted_after(&history);
                history.push(token);
                token
            };
            (0..request.max).map(next).collect()
        };
        requests.iter().map(draft).collect()
    }
}

impl Context for FakeContext {
    fn num_tokens(&self, slot: SlotId) -> usize {
        self.slots[slot.index()].len()
    }

    fn can_trim(&self, slot: SlotId, position: usize) -> bool {
        let len = self.slots[slot.index()].len();
        position >= len
            || position == 0
            || match self.memory {
                Memory::Attention => true,
                Memory::SlidingWindow(window) => len - position <= window,
                Memory::Recurrent => false,
            }
    }

    fn trim(&mut self, slot: SlotId, position: usize) -> bool {
        let possible = self.can_trim(slot, position);
        if possible {
            self.slots[slot.index()].truncate(position);
            self.follow_at_most(slot, position);
        }
        possible
    }

    fn clear(&mut self, slot: SlotId) {
        self.slots[slot.index()].clear();
        self.follow_at_most(slot, 0);
    }

    fn copy(&mut self, from: SlotId, to: SlotId) -> bool {
        self.slots[to.index()] = self.slots[from.index()].clone();
        if let Some(followed) = &mut self.followed {
            followed[to.index()] = followed[from.index()];
        }
        true
    }

    fn state_bytes(&mut self, slot: SlotId) -> usize {
        self.slots[slot.index()].len() * 4 + 1
    }

    fn save(&mut self, slot: SlotId, max_bytes: usize) -> Option<Vec<u8>> {
        let cells = &self.slots[slot.index()];
        let tokens = cells.iter().flat_map(|token| token.0.to_le_bytes());
        let state: Vec<u8> = tokens.chain([u8::from(self.can_draft(slot))]).collect();
        (state.len() <= max_bytes).then_some(state)
    }

    fn restore(&mut self, slot: SlotId, state: &[u8], num_tokens: usize) -> bool {
        if state.len() != 4 * num_tokens + 1 {
            return false;
        }
        let is_followed = state.last() == Some(&1);
        if let Some(followed) = &mut self.followed {
            followed[slot.index()] = if is_followed { num_tokens } else { 0 };
        }
        let cells = state.chunks_exact(4).filter_map(|bytes| bytes.try_into().ok());
        self.slots[slot.index()] = cells.map(|bytes| TokenId(i32::from_le_bytes(bytes))).collect();
        true
    }

    fn tokens(&self, slot: SlotId) -> Option<&[TokenId]> {
        Some(&self.slots[slot.index()])
    }

    fn tells_tokens(&self) -> bool {
        true
    }
}

fn rows_by_slot(rows: &[Row]) -> impl Iterator<Item = (SlotId, usize)> {
    rows.chunk_by(|a, b| a.slot == b.slot).map(|own| (own[0].slot, own.len()))
}

/// Bytes as tokens.
#[derive(Debug, Default)]
pub struct FakeVocabulary;

impl Vocabulary for FakeVocabulary {
    fn size(&self) -> usize {
        VOCABULARY_SIZE
    }

    fn tokenize(&self, text: &str, _add_special: bool, _parse_special: bool) -> Result<Vec<TokenId>, Error> {
        Ok(text.bytes().map(|byte| TokenId(i32::from(byte))).collect())
    }

    fn piece(&self, token: TokenId, render_special: bool) -> &[u8] {
        match usize::try_from(token.0).ok().and_then(|id| BYTES.get(id)) {
            Some(byte) => std::slice::from_ref(byte),
            None if render_special && token == END => b"<end>",
            None => &[],
        }
    }

    fn max_piece_bytes(&self) -> usize {
        1
    }

    fn end_of_generation(&self) -> &[TokenId] {
        &[END]
    }
}
