//! Admission: a waiting sequence gets a slot, in the order of arrival, or of [`crate::fair_queue`] among
//! several tenants. [`crate::kv`] decides which one, and with what cells.

use std::time::Duration;

use crate::draft::SequenceDrafts;
use crate::event::Event;
use crate::kv::{Lease, Place, Resident, Start, Wanted};
use crate::sequence::Sequence;

use super::room::resident;
use super::{Core, End, Waiting};

/// Beside running streams no further sequence comes in before the next step, once cells were moved for this long.
const MAX_MOVING: Duration = Duration::from_millis(50);

impl Core {
    /// Gives slots to waiting sequences in their order, as far as there is room. A sequence that waits for a running
    /// prompt's cells is skipped.
    pub(super) fn admit(&mut self) {
        for sequence in &mut self.running {
            sequence.share_at = None;
        }
        self.waiting.begin_round();
        while let Some(next) = self.waiting.next() {
            if self.is_moving_too_long() {
                return;
            }
            let place = if self.has_room_for(&next.sequence) { self.place_of_next() } else { None };
            match place {
                None if self.make_way() => {}
                None => return,
                Some(Place::Wait { leader, position }) => {
                    let share_at = &mut self.running[leader].share_at;
                    *share_at = Some(share_at.map_or(position, |other| other.min(position)));
                    self.waiting.pass_over();
                }
                Some(Place::Start(start)) => {
                    let Some(waiting) = self.waiting.take() else {
                        return;
                    };
                    self.start(waiting, start);
                }
            }
        }
    }

    fn is_moving_too_long(&self) -> bool {
        !self.running.is_empty() && self.kv.moved() >= MAX_MOVING
    }

    fn place_of_next(&mut self) -> Option<Place> {
        let next = self.waiting.next()?;
        let residents: Vec<Resident<'_>> = self.running.iter().filter_map(resident).collect();
        self.kv.choose(&wanted(&next.sequence), &residents)
    }

    fn start(&mut self, waiting: Waiting, start: Start) {
        let Waiting { mut sequence, place } = waiting;
        drop(place);
        let scores = sequence.scores.as_mut();
        if let Some(first) = scores.and_then(|scores| scores.first(&sequence.tokens, &*self.vocabulary)) {
            sequence.outbox.push(Event::Prompt(vec![first]), &mut self.pending);
        }
        if !sequence.has_room() && !sequence.is_scored() {
            // Nothing is computed (`max_total_tokens` equals the prompt).
            self.waiting.note_end(&sequence.tenant.id);
            return self.report_end(&mut sequence, End::length());
        }
        let num_cells = self.num_running_cells();
        let suspended = sequence.suspended.take();
        let Lease { slot, num_computed } = match suspended {
            Some(suspended) => self.kv.resume(suspended, start.slot, num_cells),
            None => self.kv.acquire(&wanted(&sequence), start, num_cells),
        };
        sequence.slot = Some(slot);
        sequence.num_computed = num_computed;
        if sequence.note_admitted(num_computed) {
            if sequence.request.cache_prompt {
                sequence.checkpoint_at = self.kv.checkpoint_position(sequence.num_prompt);
            }
            self.waiting.charge_prompt(&sequence.tenant, sequence.num_new());
            self.stats.prompt_tokens += sequence.num_prompt as u64;
            self.stats.cached_tokens += num_computed as u64;
            let started = Event::Started { num_cached_tokens: num_computed };
            sequence.outbox.push(started, &mut self.pending);
            sequence.report_progress(&mut self.pending);
        }
        self.running.push(sequence);
    }

    /// Keeps the state of a sequence that has reached its checkpoint.
    pub(super) fn take_checkpoint(&mut self, index: usize) {
        let sequence = &mut self.running[index];
        if sequence.checkpoint_at != Some(sequence.num_computed) {
            return;
        }
        sequence.checkpoint_at = None;
        if let Some(slot) = sequence.slot {
            self.kv.keep_checkpoint(slot, &sequence.tokens[..sequence.num_computed]);
        }
    }
}

/// What a sequence without a slot looks for. A sequence with cells of its own looks for no others.
fn wanted(sequence: &Sequence) -> Wanted<'_> {
    Wanted {
        tokens: &sequence.tokens,
        is_cached: sequence.request.cache_prompt && sequence.suspended.is_none(),
        num_coverable: sequence.num_coverable(),
        wants_head: sequence.drafts.as_ref().is_some_and(SequenceDrafts::is_head),
        session: sequence.session_key.as_ref(),
    }
}
