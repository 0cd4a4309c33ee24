//! Threads that prepare work: quick tasks run beside slow ones, and a task that panics ends only itself.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::fair_queue::FairQueue;
use crate::tenant::Tenant;

use super::lock::lock;
use super::shared::{Running, Shared};

/// A task on the pool's context. If it is dropped undone, it must answer whoever waits for it.
type Task<P> = Box<dyn FnOnce(&P) + Send>;

/// Whose a task is, and how long it may take.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kind {
    tenant: Tenant,
    pace: Pace,
}

/// How long a task may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Some milliseconds.
    Quick,
    /// Perhaps seconds.
    Slow,
}

/// The configuration of a pool's threads.
pub(crate) struct PoolOptions {
    pub(crate) name: &'static str,
    pub(crate) num_threads: usize,
    pub(crate) stack_bytes: usize,
    /// Whether the end of the engine waits for a task that is being done, however long that takes.
    pub(crate) must_finish: bool,
    /// Whether quick tasks are done one at a time, so that they end in the order in which they came.
    pub(crate) keeps_order: bool,
}

/// The handle on the threads. They share the context of type `P`, which is dropped with the last of them.
pub(crate) struct TaskPool<P> {
    inner: Arc<Inner<P>>,
}

struct Inner<P> {
    shared: Arc<Shared>,
    name: &'static str,
    queue: Mutex<Queue<P>>,
    changed: Condvar,
}

struct Queue<P> {
    quick: FairQueue<(Tenant, Task<P>)>,
    slow: FairQueue<(Tenant, Task<P>)>,
    keeps_order: bool,
    num_quick_running: usize,
    num_slow_running: usize,
    max_slow_running: usize,
    is_closed: bool,
}

impl<P> Clone for TaskPool<P> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<P: Send + Sync + 'static> TaskPool<P> {
    /// Starts the threads. They end when the pool is closed.
    pub(crate) fn start(options: &PoolOptions, context: P, shared: &Arc<Shared>) -> io::Result<Self> {
        let queue = Queue {
            quick: FairQueue::new(),
            slow: FairQueue::new(),
            keeps_order: options.keeps_order,
            num_quick_running: 0,
            num_slow_running: 0,
            max_slow_running: max_slow(options.num_threads),
            is_closed: false,
        };
        let (shared, name) = (Arc::clone(shared), options.name);
        let inner = Inner { shared, name, queue: Mutex::new(queue), changed: Condvar::new() };
        let pool = Self { inner: Arc::new(inner) };
        let context = Arc::new(context);
        for _ in 0..options.num_threads {
            if let Err(error) = pool.spawn(options, Arc::clone(&context)) {
                pool.close();
                return Err(error);
            }
        }
        Ok(pool)
    }

    fn spawn(&self, options: &PoolOptions, context: Arc<P>) -> io::Result<()> {
        let running = Running::new(&self.inner.shared, options.must_finish);
        let inner = Arc::clone(&self.inner);
        let builder = std::thread::Builder::new().name(options.name.to_owned());
        builder.stack_size(options.stack_bytes).spawn(move || {
            // Dropped last, when the context is.
            let _running = running;
            inner.work(&context);
            drop(context);
        })?;
        Ok(())
    }

    /// Hands a task to the threads. If they no longer take tasks it is dropped, which answers it.
    pub(crate) fn push(&self, pace: Pace, task: impl FnOnce(&P) + Send + 'static) {
        self.push_of(Tenant::default(), pace, task);
    }

    /// As [`Self::push`]; tenants take turns.
    pub(crate) fn push_of(&self, tenant: Tenant, pace: Pace, task: impl FnOnce(&P) + Send + 'static) {
        // In a forked child the lock may be held for ever.
        if !self.inner.shared.owner().is_current() {
            return;
        }
        let mut queue = lock(&self.inner.queue);
        if queue.is_closed {
            drop(queue);
            return drop(task);
        }
        queue.push(Kind { tenant, pace }, Box::new(task));
        drop(queue);
        self.inner.changed.notify_one();
    }

    /// Number of waiting tasks.
    pub(crate) fn num_waiting(&self) -> usize {
        let queue = lock(&self.inner.queue);
        queue.quick.len() + queue.slow.len()
    }

    /// Drops waiting tasks and ends the threads after their current ones.
    pub(crate) fn close(&self) {
        let mut queue = lock(&self.inner.queue);
        queue.is_closed = true;
        let waiting =
            [Pace::Quick, Pace::Slow].map(|pace| std::mem::replace(queue.of(pace), FairQueue::new()));
        drop(queue);
        self.inner.changed.notify_all();
        // Not under the lock: a dropped task may submit another.
        drop(waiting);
    }
}

impl<P> Inner<P> {
    fn work(&self, context: &P) {
        while let Some((task, kind)) = self.next() {
            if catch_unwind(AssertUnwindSafe(|| task(context))).is_err() {
                log::error!("a task of {} crashed", self.name);
            }
            lock(&self.queue).end(&kind);
            self.changed.notify_one();
        }
    }

    /// Waits for a task; `None` once the pool is closed.
    fn next(&self) -> Option<(Task<P>, Kind)> {
        let mut queue = lock(&self.queue);
        while !queue.is_closed {
            if let Some(found) = queue.take() {
                return Some(found);
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }
}

impl<P> Queue<P> {
    /// Quick tasks go first, but one thread does slow ones as long as there are any, so that neither kind
    /// waits for the end of the other.
    fn take(&mut self) -> Option<(Task<P>, Kind)> {
        let is_quick_held = self.keeps_order && self.num_quick_running > 0;
        let is_slow_due = self.num_slow_running == 0 || self.quick.is_empty() || is_quick_held;
        if is_slow_due
            && self.num_slow_running < self.max_slow_running
            && let Some(found) = self.take_of(Pace::Slow)
        {
            self.num_slow_running += 1;
            return Some(found);
        }
        if is_quick_held {
            return None;
        }
        let found = self.take_of(Pace::Quick)?;
        self.num_quick_running += 1;
        Some(found)
    }

    fn of(&mut self, pace: Pace) -> &mut FairQueue<(Tenant, Task<P>)> {
        match pace {
            Pace::Quick => &mut self.quick,
            Pace::Slow => &mut self.slow,
        }
    }

    fn push(&mut self, kind: Kind, task: Task<P>) {
        let Kind { tenant, pace } = kind;
        self.of(pace).push(&tenant.id.clone(), (tenant, task));
    }

    /// The next task of a pace. Each counts as one token: nobody knows yet what it takes.
    fn take_of(&mut self, pace: Pace) -> Option<(Task<P>, Kind)> {
        let tasks = self.of(pace);
        let (tenant, task) = tasks.take()?;
        tasks.charge_prompt(&tenant, 1);
        Some((task, Kind { tenant, pace }))
    }

    /// Counts a task as done.
    fn end(&mut self, kind: &Kind) {
        self.of(kind.pace).note_end(&kind.tenant.id);
        match kind.pace {
            Pace::Quick => self.num_quick_running -= 1,
            Pace::Slow => self.num_slow_running -= 1,
        }
    }
}

/// Slow tasks leave one thread to the quick ones, if there are several.
fn max_slow(num_threads: usize) -> usize {
    num_threads.saturating_sub(1).max(1)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;
    use crate::error::Error;
    use crate::worker::job::job;

    fn shared() -> Arc<Shared> {
        Arc::new(Shared::new(crate::worker::queue::Queue::new(1, 1)))
    }

    fn pool(shared: &Arc<Shared>, num_threads: usize) -> TaskPool<u8> {
        let options = PoolOptions {
            name: "test",
            num_threads,
            stack_bytes: 1 << 20,
            must_finish: false,
            keeps_order: true,
        };
        TaskPool::start(&options, 7, shared).unwrap()
    }

    /// A slow task that says when it began and ends when it is told to.
    fn push_slow(pool: &TaskPool<u8>) -> (Receiver<()>, Sender<()>) {
        let (start, begun) = channel();
        let (end, ended) = channel::<()>();
        pool.push(Pace::Slow, move |_| {
            start.send(()).unwrap();
            // Also where the test failed and dropped its end.
            ended.recv().unwrap_or(());
        });
        (begun, end)
    }

    #[test]
    fn slow_tasks_leave_a_thread_to_the_quick_ones() {
        let shared = shared();
        let pool = pool(&shared, 3);
        let (first, second, third) = (push_slow(&pool), push_slow(&pool), push_slow(&pool));
        first.0.recv().unwrap();
        second.0.recv().unwrap();
        let (sender, quick) = job(&shared, None);
        pool.push(Pace::Quick, move |&context| sender.send(Ok(context)));
        assert_eq!(quick.wait(), Ok(7));
        assert!(third.0.try_recv().is_err());
        drop(first.1);
        third.0.recv().unwrap();
        drop((second.1, third.1));
        pool.close();
        shared.join();
    }

    #[test]
    fn slow_tasks_are_not_starved_by_quick_ones() {
        let mut queue = Queue::<()> {
            quick: FairQueue::new(),
            slow: FairQueue::new(),
            keeps_order: false,
            num_quick_running: 0,
            num_slow_running: 0,
            max_slow_running: 2,
            is_closed: false,
        };
        for _ in 0..2 {
            for pace in [Pace::Quick, Pace::Slow] {
                queue.push(Kind { tenant: Tenant::default(), pace }, Box::new(|()| ()));
            }
        }
        let paces = std::iter::from_fn(|| queue.take().map(|(_, kind)| kind.pace));
        assert_eq!(paces.collect::<Vec<_>>(), [Pace::Slow, Pace::Quick, Pace::Quick, Pace::Slow]);
    }

    #[test]
    fn tenants_take_turns() {
        let mut queue = Queue::<()> {
            quick: FairQueue::new(),
            slow: FairQueue::new(),
            keeps_order: false,
            num_quick_running: 0,
            num_slow_running: 0,
            max_slow_running: 9,
            is_closed: false,
        };
        for tenant in ["flood", "flood", "flood", "flood", "newcomer", "newcomer"] {
            queue.push(Kind { tenant: Tenant::new(tenant), pace: Pace::Slow }, Box::new(|()| ()));
        }
        let taken = std::iter::from_fn(|| {
            let (_, kind) = queue.take()?;
            queue.end(&kind);
            Some(kind.tenant.id.0.to_string())
        });
        let expected = ["flood", "newcomer", "flood", "newcomer", "flood", "flood"];
        assert_eq!(taken.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn slow_tasks_go_on_while_quick_ones_keep_their_order() {
        let shared = shared();
        let pool = pool(&shared, 3);
        let first = push_slow(&pool);
        first.0.recv().unwrap();
        let (end, ended) = channel::<()>();
        let (started, has_started) = channel();
        pool.push(Pace::Quick, move |_| {
            started.send(()).unwrap();
            ended.recv().unwrap_or(());
        });
        has_started.recv().unwrap();
        pool.push(Pace::Quick, |_| ());
        let second = push_slow(&pool);
        second.0.recv().unwrap();
        drop((first.1, second.1, end));
        pool.close();
        shared.join();
    }

    #[test]
    fn quick_tasks_end_in_the_order_in_which_they_came() {
        let shared = shared();
        let pool = pool(&shared, 3);
        let (sender, ended) = channel();
        for number in 0..1000 {
            let sender = sender.clone();
            pool.push(Pace::Quick, move |_| sender.send(number).unwrap());
        }
        drop(sender);
        assert_eq!(ended.iter().collect::<Vec<_>>(), (0..1000).collect::<Vec<_>>());
        pool.close();
        shared.join();
    }

    #[test]
    fn a_panic_ends_its_task_only() {
        let shared = shared();
        let pool = pool(&shared, 1);
        for pace in [Pace::Quick, Pace::Slow] {
            let (sender, lost) = job::<()>(&shared, None);
            pool.push(pace, move |_| {
                let _sender = sender;
                panic!("a fault that the test asked for");
            });
            assert_eq!(lost.wait(), Err(Error::Internal));
        }
        let (sender, next) = job(&shared, None);
        pool.push(Pace::Slow, move |&context| sender.send(Ok(context)));
        assert_eq!(next.wait(), Ok(7));
        pool.close();
        shared.join();
    }

    #[test]
    fn what_waits_at_the_end_is_answered_and_what_never_ends_is_left_behind() {
        let shared = shared();
        let pool = pool(&shared, 1);
        let endless = push_slow(&pool);
        endless.0.recv().unwrap();
        let (sender, waiting) = job::<()>(&shared, None);
        pool.push(Pace::Quick, move |_| sender.send(Ok(())));
        pool.close();
        assert_eq!(waiting.wait(), Err(Error::ShutDown));
        let (sender, late) = job::<()>(&shared, None);
        pool.push(Pace::Quick, move |_| sender.send(Ok(())));
        assert_eq!(late.wait(), Err(Error::ShutDown));
        shared.join();
        // It was still there when `join` returned.
        endless.1.send(()).unwrap();
    }
}
