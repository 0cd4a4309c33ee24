//! Log-probabilities of prompts: which rows give them, and how many in a step.

use crate::error::Error;
use crate::event::{Event, TokenScore};
use crate::output::{End, ScoredRow};
use crate::sequence::Sequence;

use super::Core;
use super::compute::Part;

impl Core {
    /// Shortens drafts as far as the rows of a prompt's tile need their place: a batch has only so many rows with
    /// logits.
    pub(super) fn leave_room_for_scores(&self, drafts: &mut [usize]) {
        if !self.running.iter().any(Sequence::is_scored) {
            return;
        }
        let limits = self.kv.limits();
        let spare = limits.max_outputs.saturating_sub(self.running.len() + limits.tile);
        let most = spare / self.running.len();
        for len in drafts {
            *len = most.min(*len);
        }
    }

    /// The most tokens that each running sequence may compute in the next step so that all wanted logits have their
    /// place; 0: none. Prompts that are scored get what the others leave, the oldest first.
    pub(super) fn scored_chunks(&self, drafts: &[usize]) -> Vec<usize> {
        let mut chunks = vec![usize::MAX; self.running.len()];
        let scored = self.running.iter().enumerate().filter(|(_, sequence)| sequence.is_scored());
        let mut scored: Vec<usize> = scored.map(|(index, _)| index).collect();
        scored.sort_unstable_by_key(|&index| self.running[index].arrival);
        let limits = self.kv.limits();
        let taken = self.running.len() - scored.len() + drafts.iter().sum::<usize>();
        let mut spare = limits.max_outputs.saturating_sub(taken);
        for (rank, index) in scored.into_iter().enumerate() {
            let sequence = &self.running[index];
            let chunk = scored_chunk(sequence, spare, limits.tile, rank == 0);
            chunks[index] = chunk;
            spare = spare.saturating_sub(num_outputs(sequence, chunk));
        }
        chunks
    }

    /// Hands out the log-probabilities of the prompts whose rows were computed. Returns the sequences that end with
    /// that: those that generate nothing, and those without valid logits.
    pub(super) fn score_prompts(&mut self, parts: &[Part]) -> Vec<(usize, Result<Option<End>, Error>)> {
        let parts: Vec<&Part> = parts.iter().filter(|part| !part.scored_rows.is_empty()).collect();
        let mut scores = self.score(&parts).into_iter();
        let mut ends = Vec::new();
        for part in parts {
            // All are taken, also behind an error, since those of the next part follow.
            let own: Vec<_> = scores.by_ref().take(part.scored_rows.len()).collect();
            let end = self.hand_out_scores(part.index, own.into_iter().collect());
            if !matches!(end, Ok(None)) {
                ends.push((part.index, end));
            }
        }
        ends
    }

    /// The scores of all these rows, in their order.
    fn score(&mut self, parts: &[&Part]) -> Vec<Result<TokenScore, Error>> {
        let Self { kv, pool, running, .. } = self;
        let computed = kv.computed();
        let rows = parts.iter().filter_map(|part| {
            let sequence = &running[part.index];
            let logits = part.scored_rows.clone().map(|row| computed.logits(row));
            Some(sequence.scores.as_ref()?.rows(&sequence.tokens, logits))
        });
        let rows: Vec<ScoredRow<'_>> = rows.flatten().collect();
        let cost = rows.iter().map(ScoredRow::cost).sum();
        let scores = pool.run(rows, cost, |row, scratch| row.score(scratch));
        scores.into_iter().map(|score| score.unwrap_or(Err(Error::Internal))).collect()
    }

    fn hand_out_scores(
        &mut self,
        index: usize,
        scores: Result<Vec<TokenScore>, Error>,
    ) -> Result<Option<End>, Error> {
        let sequence = &mut self.running[index];
        if let Some(state) = &mut sequence.scores {
            let tokens = state.give(&sequence.tokens, scores?, &*self.vocabulary);
            sequence.outbox.push(Event::Prompt(tokens), &mut self.pending);
        }
        let is_over = !sequence.is_scored() && !sequence.has_room();
        Ok(is_over.then(End::length))
    }
}

/// The tokens of a prompt's next chunk, at most `spare` of whose rows give logits. Chunks end at borders of tiles;
/// only the oldest prompt gets a part of one.
fn scored_chunk(sequence: &Sequence, spare: usize, tile: usize, is_oldest: bool) -> usize {
    let start = sequence.num_computed;
    if num_outputs(sequence, sequence.num_pending()) <= spare {
        return usize::MAX;
    }
    let end = sequence.unscored().start + spare;
    match end / tile * tile {
        border if border > start => border - start,
        _ if is_oldest => end - start,
        _ => 0,
    }
}

/// How many of a sequence's next rows give logits.
fn num_outputs(sequence: &Sequence, num_rows: usize) -> usize {
    let unscored = sequence.unscored();
    let end = sequence.num_computed.saturating_add(num_rows);
    let is_last = end >= sequence.tokens.len();
    unscored.end.min(end).saturating_sub(unscored.start) + usize::from(is_last)
}
