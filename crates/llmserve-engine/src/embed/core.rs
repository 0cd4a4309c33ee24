//! The embed thread: it takes inputs in turn from all requests and computes them together.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crossbeam_channel::Receiver;

use super::batch::{Pick, Remaining, plan};
use super::prepare::Prepared;
use super::request::{Embeddings, finish};
use crate::error::Error;
use crate::ids::TokenId;
use crate::job::JobSender;
use crate::model::{DecodeError, EmbeddingContext};
use crate::shared::Shared;
use crate::stats::Stats;
use crate::tenant::TenantId;
use crate::worker::thread::Work;

/// A command for the embed thread.
pub(super) enum Command {
    /// A request whose inputs have been tokenized.
    Embed(Box<Prepared>),
    /// End everything.
    ShutDown,
}

/// A request that is waiting or being computed.
struct Active {
    prepared: Box<Prepared>,
    lengths: Vec<usize>,
    /// The first input that has not been computed.
    next: usize,
    values: Vec<f32>,
}

impl Active {
    fn tenant(&self) -> &TenantId {
        &self.prepared.place.tenant().id
    }
}

/// All state of the embed thread.
pub(super) struct Core {
    context: Box<dyn EmbeddingContext>,
    shared: Arc<Shared>,
    commands: Receiver<Command>,
    /// The requests in the order of their turns.
    active: VecDeque<Active>,
    /// Answers of this step, sent once the counters are published.
    answers: Vec<(JobSender<Embeddings>, Result<Embeddings, Error>)>,
    vectors: Vec<f32>,
    stats: Stats,
    /// Requests that came in since the counters were published.
    num_arrived: usize,
    is_shutting_down: bool,
}

impl Work for Core {
    fn run(&mut self) {
        self.publish();
        while self.receive() {
            self.publish();
            let started = Instant::now();
            let decoding = self.stats.decode_seconds;
            self.step();
            let took = started.elapsed().as_secs_f64();
            self.stats.overhead_seconds += took - (self.stats.decode_seconds - decoding);
            self.publish();
            for (reply, result) in self.answers.drain(..) {
                reply.send(result);
            }
        }
    }
}

impl Core {
    pub(super) fn new(
        context: Box<dyn EmbeddingContext>,
        shared: Arc<Shared>,
        commands: Receiver<Command>,
    ) -> Self {
        let limits = *context.limits();
        Self {
            stats: Stats {
                num_slots: limits.max_sequences,
                num_cells: limits.num_cells,
                context_length: limits.context_length,
                num_threads: limits.num_threads,
                ..Stats::default()
            },
            context,
            shared,
            commands,
            active: VecDeque::new(),
            answers: Vec::new(),
            vectors: Vec::new(),
            num_arrived: 0,
            is_shutting_down: false,
        }
    }

    /// Takes new commands, waiting only while there is nothing to do; false: end.
    fn receive(&mut self) -> bool {
        if self.active.is_empty() {
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

    fn handle(&mut self, command: Command) {
        match command {
            Command::Embed(prepared) => {
                self.stats.requests_accepted += 1;
                self.num_arrived += 1;
                let lengths = prepared.inputs.iter().map(Vec::len).collect();
                self.active.push_back(Active { prepared, lengths, next: 0, values: Vec::new() });
            }
            Command::ShutDown => self.is_shutting_down = true,
        }
    }

    fn step(&mut self) {
        self.drop_cancelled();
        let limits = *self.context.limits();
        let remaining: Vec<_> = self
            .active
            .iter()
            .map(|active| Remaining { tenant: active.tenant(), next: active.next, lengths: &active.lengths })
            .collect();
        let picks = plan(&remaining, limits.batch_rows, limits.max_sequences);
        if picks.is_empty() {
            return;
        }
        match self.compute(&picks) {
            Ok(()) => self.collect(&picks, limits.dimensions),
            Err(DecodeError::KvFull) => self.fail(&picks, &Error::DecodeFailed { code: 1 }),
            Err(DecodeError::Failed(code)) => self.fail(&picks, &Error::DecodeFailed { code }),
        }
        self.retire();
    }

    fn compute(&mut self, picks: &[Pick]) -> Result<(), DecodeError> {
        let inputs: Vec<&[TokenId]> = picks
            .iter()
            .map(|pick| self.active[pick.request].prepared.inputs[pick.input].as_slice())
            .collect();
        let num_rows: usize = inputs.iter().map(|input| input.len()).sum();
        self.vectors.clear();
        let started = Instant::now();
        let result = self.context.embed(&inputs, &mut self.vectors);
        self.stats.decode_seconds += started.elapsed().as_secs_f64();
        self.stats.steps += 1;
        self.stats.rows += num_rows as u64;
        self.stats.prefill_rows += num_rows as u64;
        self.stats.prompt_tokens += num_rows as u64;
        result
    }

    /// Gives each request the vectors of its inputs. An unusable vector fails its request alone.
    fn collect(&mut self, picks: &[Pick], dimensions: usize) {
        let mut failed = Vec::new();
        let mut vectors = self.vectors.chunks_exact(dimensions.max(1));
        for pick in picks {
            let active = &mut self.active[pick.request];
            let (kept, how) = (active.prepared.dimensions, active.prepared.finish);
            active.next = pick.input + 1;
            let vector = vectors.next().unwrap_or_default();
            if finish(vector, kept, how, &mut active.values).is_none() {
                failed.push(*pick);
            }
        }
        self.fail(&failed, &Error::InvalidEmbedding);
    }

    /// Ends the requests of some inputs with an error.
    fn fail(&mut self, picks: &[Pick], error: &Error) {
        let mut requests: Vec<usize> = picks.iter().map(|pick| pick.request).collect();
        requests.dedup();
        requests.sort_unstable();
        requests.dedup();
        for request in requests.into_iter().rev() {
            if let Some(active) = self.active.remove(request) {
                self.stats.requests_failed += 1;
                self.answers.push((active.prepared.reply, Err(error.clone())));
            }
        }
    }

    /// Removes complete requests; the tenant that had the first turn has the last one next time, and of its requests
    /// the first.
    fn retire(&mut self) {
        let first = self.active.front().map(|active| active.tenant().clone());
        for _ in 0..self.active.len() {
            let Some(active) = self.active.pop_front() else { break };
            if active.next < active.lengths.len() {
                self.active.push_back(active);
                continue;
            }
            self.stats.requests_stopped += 1;
            let prepared = *active.prepared;
            self.shared.queue.note_service(prepared.submitted.elapsed().as_secs_f64(), 1);
            drop(prepared.place);
            let embeddings = Embeddings {
                dimensions: prepared.dimensions,
                values: active.values,
                num_tokens: active.lengths,
            };
            self.answers.push((prepared.reply, Ok(embeddings)));
        }
        let (mut own, others): (VecDeque<Active>, VecDeque<Active>) =
            self.active.drain(..).partition(|active| Some(active.tenant()) == first.as_ref());
        if !own.is_empty() {
            own.rotate_left(1);
        }
        self.active = others;
        self.active.append(&mut own);
    }

    fn drop_cancelled(&mut self) {
        let before = self.active.len();
        self.active.retain(|active| !active.prepared.reply.is_cancelled());
        self.stats.requests_cancelled += (before - self.active.len()) as u64;
    }

    fn publish(&mut self) {
        let num_started = self.active.iter().filter(|active| active.next > 0).count();
        self.stats.num_running = num_started;
        self.stats.num_waiting = self.active.len() - num_started;
        self.shared.publish(&self.stats);
        self.shared.num_preparing.fetch_sub(std::mem::take(&mut self.num_arrived), Ordering::Relaxed);
    }
}
