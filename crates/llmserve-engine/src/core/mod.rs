//! The engine thread: one step after the other, each of which admits, plans, computes, emits and retires.

mod admit;
mod compute;
mod draft;
mod emit;
mod head;
mod room;
mod score;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crossbeam_channel::Receiver;

use crate::command::Command;
use crate::config::SchedulerConfig;
use crate::draft::{DraftController, SequenceDrafts};
use crate::error::Error;
use crate::event::{Event, FinishReason, Finished};
use crate::fair_queue::FairQueue;
use crate::kv::{CopyCells, KvCache};
use crate::model::{Context, Vocabulary};
use crate::notify::PendingFlush;
use crate::output::{End, Pool};
use crate::queue::Place;
use crate::scheduler::{Candidate, Plan, Scheduler};
use crate::sequence::Sequence;
use crate::shared::Shared;
use crate::stats::Stats;

use room::resident;

/// A sequence without a slot.
struct Waiting {
    sequence: Sequence,
    /// Held from acceptance to the first admission.
    place: Option<Place>,
}

/// All state of the engine thread.
pub(crate) struct Core {
    kv: KvCache,
    vocabulary: Arc<dyn Vocabulary>,
    shared: Arc<Shared>,
    commands: Receiver<Command>,
    /// Of a tenant, oldest first; preempted sequences come back in front.
    waiting: FairQueue<Waiting>,
    running: Vec<Sequence>,
    scheduler: Scheduler,
    draft_controller: DraftController,
    pool: Pool,
    pending: PendingFlush,
    stats: Stats,
    /// Sequences that came in since the stats were published.
    num_arrived: usize,
    is_shutting_down: bool,
}

impl Core {
    pub(crate) fn new(
        context: Box<dyn Context>,
        vocabulary: Arc<dyn Vocabulary>,
        config: &SchedulerConfig,
        shared: Arc<Shared>,
        commands: Receiver<Command>,
    ) -> Self {
        let limits = *context.limits();
        Self {
            draft_controller: DraftController::new(),
            scheduler: Scheduler::new(config, limits.splits_batches, limits.tile, limits.is_deterministic),
            stats: Stats {
                num_slots: limits.num_slots,
                num_cells: limits.num_cells,
                context_length: limits.context_length,
                num_threads: limits.num_threads,
                ..Stats::default()
            },
            kv: KvCache::new(context, config),
            vocabulary,
            shared,
            commands,
            waiting: FairQueue::new(),
            running: Vec::new(),
            pool: Pool::new(limits.num_threads),
            pending: PendingFlush::default(),
            num_arrived: 0,
            is_shutting_down: false,
        }
    }

    /// Runs until it is told to end.
    pub(crate) fn run(&mut self) {
        self.publish();
        while self.receive() {
            let started = Instant::now();
            let computing = self.stats.compute_seconds();
            self.step();
            let took = started.elapsed().as_secs_f64();
            self.stats.overhead_seconds += took - (self.stats.compute_seconds() - computing);
            self.publish();
            self.pending.flush();
        }
    }

    fn step(&mut self) {
        self.emit_held();
        self.retire_aborted();
        self.kv.set_speed(self.scheduler.seconds_per_prompt_token(), self.scheduler.seconds_per_step());
        self.admit();
        self.close_gap();
        self.publish();
        // Before the drafts: sequences that give way would shift the draft lengths.
        let Some(max_rows) = self.rows_with_room() else {
            return;
        };
        let mut wanted = self.wanted_drafts();
        self.leave_room_for_scores(&mut wanted);
        self.scheduler.charge(self.kv.take_moved());
        let Some(plan) = self.plan(&wanted, max_rows) else {
            return;
        };
        let drafts = self.draft(&plan);
        let batch = self.build_batch(&plan, drafts.tokens);
        if self.decode(&plan, &batch, drafts.took) {
            self.emit(&batch.parts);
        }
    }

    /// Takes new commands, waiting only while there is nothing to do; false: end.
    fn receive(&mut self) -> bool {
        if self.running.is_empty() && self.waiting.is_empty() {
            self.check_cells();
            match self.commands.recv() {
                Ok(command) => self.handle(command),
                Err(_) => return false,
            }
        }
        while let Ok(command) = self.commands.try_recv() {
            self.handle(command);
        }
        !self.is_shutting_down
    }

    /// Checks, in tests, that the books of cells are right.
    fn check_cells(&self) {
        if self.kv.is_checked() {
            let fault = self.kv.check().err();
            assert!(fault.is_none(), "the cells are not what the books say: {fault:?}");
        }
    }

    fn handle(&mut self, command: Command) {
        match command {
            Command::Submit(prepared, place) => {
                let arrival = self.stats.requests_accepted;
                self.stats.requests_accepted += 1;
                let mut prepared = *prepared;
                let drafting = prepared.request.drafting.as_ref();
                let drafts = SequenceDrafts::new(drafting, prepared.drafter.take(), &self.draft_controller);
                let sequence = Sequence::new(prepared, place.tenant().clone(), arrival, drafts);
                self.num_arrived += 1;
                let tenant = sequence.tenant.id.clone();
                self.waiting.push(&tenant, Waiting { sequence, place: Some(place) });
            }
            Command::Wake => {}
            Command::CopyCells(CopyCells { tokens, session, reply }) => {
                if reply.send(self.kv.copy_out(&tokens, session.as_ref())).is_err() {
                    log::debug!("nobody waits for the cells of a session");
                }
            }
            Command::ListCached(result) => {
                let residents: Vec<_> = self.running.iter().filter_map(resident).collect();
                result.send(Ok(self.kv.cached_tokens(&residents)));
            }
            Command::OpenHead { result, commands } => self.open_head(result, commands),
            Command::CloseHead => self.close_head(),
            Command::Park(cells) => self.kv.take_in(*cells),
            Command::ShutDown => self.is_shutting_down = true,
        }
    }

    /// `wanted`: how many tokens each running sequence should draft.
    fn plan(&mut self, wanted: &[usize], max_rows: usize) -> Option<Plan> {
        let chunks = self.scored_chunks(wanted);
        let candidates: Vec<Candidate> = self
            .running
            .iter()
            .enumerate()
            // A sequence whose drawn token waits for its constraint has nothing to decode.
            .filter(|(index, sequence)| !sequence.output.is_held() && chunks[*index] > 0)
            .map(|(index, sequence)| Candidate {
                index,
                position: sequence.num_computed,
                num_pending: sequence.num_pending(),
                num_new: sequence.num_new(),
                num_generated: sequence.num_generated(),
                num_drafted: wanted.get(index).copied().unwrap_or(0),
                max_chunk: max_chunk(sequence).min(chunks[index]),
                served: self.waiting.served(&sequence.tenant.id),
                arrival: sequence.arrival,
            })
            .collect();
        let plan = self.scheduler.plan(&candidates, max_rows);
        (!plan.is_empty()).then_some(plan)
    }

    /// Ends requests that their clients gave up, wherever they are.
    fn retire_aborted(&mut self) {
        for index in (0..self.running.len()).rev() {
            if self.running[index].outbox.is_aborted() {
                let mut sequence = self.remove_running(index);
                self.cancel(&mut sequence);
                self.keep_cells(&mut sequence);
            }
        }
        for mut waiting in self.waiting.remove_if(|waiting| waiting.sequence.outbox.is_aborted()) {
            if let Some(suspended) = waiting.sequence.suspended.take() {
                self.kv.discard(&suspended);
            }
            self.cancel(&mut waiting.sequence);
        }
    }

    /// Tells the client of a sequence that was taken out that it is cancelled. A document that was begun
    /// is completed.
    fn cancel(&mut self, sequence: &mut Sequence) {
        match sequence.close_document(&*self.vocabulary) {
            Ok(last) => {
                self.stats.completion_tokens += last.tokens.len() as u64;
                if !last.tokens.is_empty() {
                    sequence.outbox.push(Event::Delta(last), &mut self.pending);
                }
                self.report_end(sequence, End::cancelled());
            }
            Err(error) => self.report_failure(sequence, error),
        }
    }

    /// Removes a running sequence and tells its client how it ended; its cells stay for others.
    fn finish(&mut self, index: usize, end: End) {
        let mut sequence = self.remove_running(index);
        self.report_end(&mut sequence, end);
        self.shared.queue.note_service(sequence.timings().decode.as_secs_f64(), self.stats.num_slots);
        self.keep_cells(&mut sequence);
    }

    fn remove_running(&mut self, index: usize) -> Sequence {
        self.kv.note_departure();
        let sequence = self.running.swap_remove(index);
        self.waiting.note_end(&sequence.tenant.id);
        sequence
    }

    /// Removes a running sequence with an error; its cells are lost.
    fn fail(&mut self, index: usize, error: Error) {
        let sequence = self.remove_running(index);
        if let Some(slot) = sequence.slot {
            self.kv.clear(slot);
        }
        self.report_failure(&sequence, error);
    }

    fn report_failure(&mut self, sequence: &Sequence, error: Error) {
        self.stats.requests_failed += 1;
        self.shared.forget(sequence.id());
        sequence.outbox.push(Event::Failed(error), &mut self.pending);
    }

    fn report_end(&mut self, sequence: &mut Sequence, end: End) {
        sequence.end_turn();
        match end.reason {
            FinishReason::Stop => self.stats.requests_stopped += 1,
            FinishReason::Length => self.stats.requests_length += 1,
            FinishReason::Cancelled => self.stats.requests_cancelled += 1,
        }
        self.shared.forget(sequence.id());
        let finished = Finished {
            reason: end.reason,
            usage: sequence.usage(),
            timings: sequence.timings(),
            seed: sequence.seed(),
            stop: end.stop,
            is_complete: sequence.output.is_complete(),
        };
        sequence.outbox.push(Event::Finished(finished), &mut self.pending);
    }

    fn publish(&mut self) {
        self.stats.num_waiting = self.waiting.len();
        self.stats.num_running = self.running.len();
        self.stats.num_running_cells = self.num_running_cells();
        self.stats.num_used_cells = self.stats.num_running_cells + self.kv.num_idle_cells();
        self.stats.parked_bytes = self.kv.num_parked_bytes();
        self.shared.publish(&self.stats);
        let num_arrived = std::mem::take(&mut self.num_arrived);
        self.shared.num_preparing.fetch_sub(num_arrived, Ordering::Relaxed);
    }
}

impl End {
    fn cancelled() -> Self {
        Self { reason: FinishReason::Cancelled, stop: None }
    }

    fn length() -> Self {
        Self { reason: FinishReason::Length, stop: None }
    }
}

/// The request's own limit, and the positions where a chunk must end: others wait to share what is
/// before, or a checkpoint is taken there.
fn max_chunk(sequence: &Sequence) -> usize {
    let own = sequence.request.prefill_step_size.map_or(usize::MAX, |n| n as usize);
    let borders = [sequence.share_at, sequence.checkpoint_at];
    let ahead =
        borders.into_iter().flatten().filter_map(|position| position.checked_sub(sequence.num_computed));
    ahead.filter(|&len| len > 0).fold(own, usize::min)
}

#[cfg(test)]
mod tests;
