//! Room for running sequences, and who gives way if there is not enough.

use crate::fair_queue::FairQueue;
use crate::kv::Resident;
use crate::sequence::Sequence;
use crate::tenant::TenantId;

use super::{Core, Waiting};

impl Core {
    pub(super) fn num_running_cells(&self) -> usize {
        self.running.iter().map(|sequence| sequence.num_computed).sum()
    }

    /// Whether a waiting sequence can be admitted now.
    pub(super) fn has_room_for(&self, sequence: &Sequence) -> bool {
        // One more cell for each sequence, for the next step.
        let bound: usize = self.running.iter().map(|other| other.tokens.len() + 1).sum();
        self.kv.has_room_for(sequence.tokens.len(), bound)
    }

    /// The most rows that the next step may have; in a unified pool, idle cells and then the
    /// youngest sequences give way until every running sequence has a cell for its next row.
    pub(super) fn rows_with_room(&mut self) -> Option<usize> {
        if self.running.is_empty() {
            return None;
        }
        let batch_size = self.kv.limits().batch_size;
        loop {
            let pending = self.running.iter().map(Sequence::num_pending).sum::<usize>().min(batch_size);
            let free = self.kv.make_room(pending, self.num_running_cells());
            if free >= self.running.len() || !self.preempt_youngest() {
                return Some(batch_size.min(free));
            }
        }
    }

    /// Frees cells after llama.cpp found none despite the count: sliding windows keep a cell that
    /// several sequences share.
    pub(super) fn make_room(&mut self) -> bool {
        if self.kv.evict_oldest() {
            return true;
        }
        let is_preempted = self.preempt_youngest();
        if is_preempted {
            self.kv.close();
        }
        is_preempted
    }

    /// Moves a sequence beside the others if llama.cpp would compute them apart and the move is worth it.
    pub(super) fn close_gap(&mut self) {
        if !self.kv.may_have_gap() {
            return;
        }
        let residents: Vec<Resident<'_>> = self.running.iter().filter_map(resident).collect();
        if let Some((from, to)) = self.kv.close_gap(&residents)
            && let Some(moved) = self.running.iter_mut().find(|sequence| sequence.slot == Some(from))
        {
            moved.slot = Some(to);
        }
    }

    /// Sends a running sequence back to the queue whose place the next in the queue has a right to; false if there is
    /// none.
    pub(super) fn make_way(&mut self) -> bool {
        self.preempt(FairQueue::gives_way)
    }

    /// Sends the youngest of several running sequences back to the queue.
    fn preempt_youngest(&mut self) -> bool {
        self.running.len() > 1 && self.preempt(|_, _| true)
    }

    /// Sends the youngest sequence back to the queue, of those tenants that may lose one and run most.
    fn preempt(&mut self, may_lose: impl Fn(&FairQueue<Waiting>, &TenantId) -> bool) -> bool {
        let losing = self
            .running
            .iter()
            .enumerate()
            .filter(|(_, sequence)| may_lose(&self.waiting, &sequence.tenant.id));
        let youngest = losing
            .max_by_key(|(_, sequence)| (self.waiting.num_running(&sequence.tenant.id), sequence.arrival));
        let Some(index) = youngest.map(|(index, _)| index) else {
            return false;
        };
        let mut sequence = self.remove_running(index);
        if let Some(slot) = sequence.slot.take() {
            sequence.suspended = self.kv.suspend(slot, sequence.num_computed);
        }
        sequence.num_computed = 0;
        self.stats.preemptions += 1;
        let tenant = sequence.tenant.id.clone();
        self.waiting.put_back(&tenant, Waiting { sequence, place: None });
        true
    }

    /// Leaves the cells of a finished sequence to later requests.
    pub(super) fn keep_cells(&mut self, sequence: &mut Sequence) {
        let Some(slot) = sequence.slot.take() else {
            return;
        };
        if sequence.request.cache_prompt {
            let mut tokens = std::mem::take(&mut sequence.tokens);
            tokens.truncate(sequence.num_computed);
            self.kv.release(slot, tokens, sequence.num_prompt);
        } else {
            self.kv.clear(slot);
        }
    }
}

/// A running sequence as the cells' owner sees it.
pub(super) fn resident(sequence: &Sequence) -> Option<Resident<'_>> {
    Some(Resident {
        slot: sequence.slot?,
        tokens: &sequence.tokens,
        num_prompt: sequence.num_prompt,
        num_computed: sequence.num_computed,
        is_shared: sequence.request.cache_prompt,
        num_left: sequence.max_tokens().saturating_sub(sequence.tokens.len()),
    })
}
