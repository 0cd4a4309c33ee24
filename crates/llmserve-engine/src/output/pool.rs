//! The threads that help the engine thread with the output of a step.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon_core::{ThreadPool, ThreadPoolBuilder};

use crate::lock::lock;
use crate::sampler::Scratch;

/// More threads than this help little: they all read through the same memory.
const MAX_THREADS: usize = 8;

/// Logits that each thread must have to look at, about 0.1 ms: waking one takes some 20 us, and where others want its
/// core the step may wait for it much longer.
const LOGITS_EACH: usize = 1_500_000;

/// The engine thread and its helpers. They work only while the compute threads do not, except in
/// [`Pool::beside`], which takes one of them.
pub(crate) struct Pool {
    /// The engine thread among them.
    num_threads: usize,
    /// Started with the first work for more than one thread. They end with this value.
    helpers: Option<ThreadPool>,
    /// Working memory, one for each thread.
    scratches: Vec<Scratch>,
}

impl Pool {
    /// A pool for a machine, or a part of one, with `num_cores`.
    pub(crate) fn new(num_cores: usize) -> Self {
        let num_threads = num_cores.clamp(1, MAX_THREADS);
        let scratches = (0..num_threads).map(|_| Scratch::default()).collect();
        Self { num_threads, helpers: None, scratches }
    }

    /// Does `work` on each job, on as many threads as `num_logits` are worth. The results are in the order
    /// of the jobs; a job that panicked has none.
    pub(crate) fn run<J: Send, R: Send>(
        &mut self,
        jobs: Vec<J>,
        num_logits: usize,
        work: impl Fn(J, &mut Scratch) -> R + Sync,
    ) -> Vec<Option<R>> {
        let num_helpers = (num_logits / LOGITS_EACH).min(jobs.len()).min(self.num_threads).saturating_sub(1);
        if num_helpers > 0 {
            self.start_helpers();
        }
        let mut results: Vec<Option<R>> = jobs.iter().map(|_| None).collect();
        let queue = Mutex::new(jobs.into_iter().zip(&mut results));
        let drain = |scratch: &mut Scratch| {
            loop {
                let next = lock(&queue).next();
                let Some((job, result)) = next else {
                    return;
                };
                *result = unless_panics(|| work(job, scratch));
            }
        };
        let mut scratches = self.scratches.iter_mut();
        let own = scratches.next();
        if let Some(helpers) = self.helpers.as_ref().filter(|_| num_helpers > 0) {
            helpers.in_place_scope(|scope| {
                for scratch in scratches.take(num_helpers) {
                    scope.spawn(|_| drain(scratch));
                }
                own.map(drain);
            });
        } else {
            own.map(drain);
        }
        results
    }

    /// Does `work` on one job after the other, as many as come while `meanwhile` runs on this thread. One helper
    /// only: the compute threads are busy.
    pub(crate) fn beside<J: Send, T>(
        &mut self,
        jobs: Vec<J>,
        work: impl Fn(J) + Sync,
        meanwhile: impl FnOnce() -> T,
    ) -> T {
        if !jobs.is_empty() {
            self.start_helpers();
        }
        let Some(helpers) = self.helpers.as_ref().filter(|_| !jobs.is_empty()) else {
            return meanwhile();
        };
        let is_over = AtomicBool::new(false);
        helpers.in_place_scope(|scope| {
            scope.spawn(|_| {
                for job in jobs {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    unless_panics(|| work(job));
                }
            });
            let result = meanwhile();
            is_over.store(true, Ordering::Relaxed);
            result
        })
    }

    fn start_helpers(&mut self) {
        if self.helpers.is_none() {
            let builder = ThreadPoolBuilder::new()
                .num_threads((self.num_threads - 1).max(1))
                .thread_name(|index| format!("llmserve-output-{index}"));
            self.helpers = builder
                .build()
                .inspect_err(|error| log::warn!("no threads for the output could be started: {error}"))
                .ok();
        }
    }
}

fn unless_panics<R>(work: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(work))
        .inspect_err(|_| log::error!("the output of a sequence panicked"))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worth all threads.
    const MANY: usize = 100 * LOGITS_EACH;

    #[test]
    fn results_come_in_the_order_of_the_jobs() {
        let mut pool = Pool::new(4);
        for num_logits in [0, MANY] {
            let squares = pool.run((0..100).collect(), num_logits, |n: usize, _| n * n);
            assert_eq!(squares, (0..100).map(|n| Some(n * n)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_panic_costs_its_own_result_and_no_thread() {
        let mut pool = Pool::new(2);
        for num_logits in [0, MANY] {
            let results = pool.run((0..50).collect(), num_logits, |n: usize, _| {
                assert!(!n.is_multiple_of(5), "a fault that the test asked for");
                n
            });
            let expected = (0..50).map(|n: usize| (!n.is_multiple_of(5)).then_some(n));
            assert_eq!(results, expected.collect::<Vec<_>>());
        }
    }

    #[test]
    fn little_work_starts_no_thread() {
        let mut pool = Pool::new(8);
        pool.run(vec![1, 2, 3], LOGITS_EACH, |n: usize, _| n);
        pool.run(vec![1], MANY, |n: usize, _| n);
        assert!(pool.helpers.is_none());
        Pool::new(1).run(vec![1, 2, 3], MANY, |n: usize, _| n);
        assert!(pool.helpers.is_none());
    }

    #[test]
    fn what_runs_beside_goes_on_after_a_panic_and_ends_with_what_it_is_beside() {
        let mut pool = Pool::new(1);
        let (sender, receiver) = crossbeam_channel::bounded(0);
        let work = |n: usize| {
            assert_ne!(n, 0, "a fault that the test asked for");
            // Waits until the other thread receives, which it does once.
            sender.send(n).ok();
        };
        let first = pool.beside((0..100).collect(), work, || {
            let first = receiver.recv();
            // Nobody will receive any more: the job that waits ends, and the next one sees that all is over.
            drop(receiver);
            first
        });
        assert_eq!(first, Ok(1));
    }
}
