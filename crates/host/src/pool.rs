//! Threads for tasks that may hang: a task that never ends costs a thread, not a round.
//!
//! Invariant: a task has at most one run in progress. Hanging threads do not count towards the limit, so that other
//! tasks continue to run; there are never more threads than tasks plus the limit.

use narthex_model::sync::Whole as _;
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::HostError;

/// The work of a task. May block forever.
pub(crate) trait Job: Send + Sync + 'static {
    fn run(&self);
}

/// A job and its state in the pool.
#[derive(Debug)]
pub(crate) struct Task<J> {
    job: J,
    state: Mutex<State>,
}

#[derive(Debug, Default, Clone, Copy)]
struct State {
    /// When the current run was queued.
    asked: Option<Instant>,
    /// Whether nobody waits for that run any more, or ever did.
    late: bool,
    /// Whether the run before took too long to be waited for, so that nobody waits for this one.
    is_slow: bool,
}

impl<J> Task<J> {
    pub(crate) fn new(job: J) -> Arc<Self> {
        Arc::new(Self {
            job,
            state: Mutex::default(),
        })
    }

    /// Returns how long the current run has taken so far, or `None` if there is none.
    pub(crate) fn waiting(&self) -> Option<Duration> {
        lock(&self.state).asked.map(|asked| asked.elapsed())
    }
}

impl<J> Deref for Task<J> {
    type Target = J;

    fn deref(&self) -> &J {
        &self.job
    }
}

/// Policy on how long to wait for runs, and when to start another thread.
pub(crate) trait Patience {
    /// Returns when every run has ended, or when it is time to check the queue again; `true` if the time is up.
    fn wait<'q, J>(
        &mut self,
        done: &Condvar,
        queue: MutexGuard<'q, Queue<J>>,
    ) -> (MutexGuard<'q, Queue<J>>, bool);
}

/// Waits until an instant.
pub(crate) struct Until(pub(crate) Instant);

impl Patience for Until {
    fn wait<'q, J>(
        &mut self,
        done: &Condvar,
        queue: MutexGuard<'q, Queue<J>>,
    ) -> (MutexGuard<'q, Queue<J>>, bool) {
        /// Most jobs end within microseconds, on a single thread. Longer ones cause another thread to start.
        const HELP_AFTER: Duration = Duration::from_millis(2);
        let left = self.0.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return (queue, true);
        }
        let step = done.wait_timeout(queue, left.min(HELP_AFTER));
        let queue = step.whole().0;
        (queue, Instant::now() >= self.0)
    }
}

/// Threads that run tasks. They are started when no idle thread takes the work, and end with the pool.
pub(crate) struct Pool<J> {
    shared: Arc<Shared<J>>,
    workers: usize,
    name: &'static str,
}

/// Which runs are so long that the next one of the same task is not waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SlowFrom(pub(crate) Duration);

struct Shared<J> {
    slow_from: Duration,
    queue: Mutex<Queue<J>>,
    work: Condvar,
    done: Condvar,
}

/// State of the pool.
pub(crate) struct Queue<J> {
    tasks: VecDeque<Arc<Task<J>>>,
    threads: usize,
    /// Threads that wait for work.
    idle: usize,
    /// Tasks, queued or running, that the collector still waits for.
    pending: usize,
    /// Tasks, queued or running, that missed a deadline.
    late: usize,
    /// Whether the collector waits for `done`.
    waited_for: bool,
    closed: bool,
}

impl<J> Queue<J> {
    fn new() -> Self {
        Self {
            tasks: VecDeque::new(),
            threads: 0,
            idle: 0,
            pending: 0,
            late: 0,
            waited_for: false,
            closed: false,
        }
    }

    /// Returns the number of runs in progress.
    fn busy(&self) -> usize {
        (self.pending + self.late).saturating_sub(self.tasks.len())
    }

    /// Stops waiting for those of `tasks` that have not ended.
    fn give_up<'a>(&mut self, tasks: impl Iterator<Item = &'a Arc<Task<J>>>)
    where
        J: 'a,
    {
        if self.pending == 0 {
            return;
        }
        for task in tasks {
            let mut state = lock(&task.state);
            if state.asked.is_some() && !state.late {
                state.late = true;
                self.pending = self.pending.saturating_sub(1);
                self.late += 1;
            }
        }
    }
}

impl<J: Job> Pool<J> {
    /// Returns a pool whose threads are named `name`, with at most `workers` (at least 1) busy at once, not counting
    /// hanging ones.
    pub(crate) fn new(name: &'static str, workers: usize, SlowFrom(slow_from): SlowFrom) -> Self {
        let shared = Shared {
            slow_from,
            queue: Mutex::new(Queue::new()),
            work: Condvar::new(),
            done: Condvar::new(),
        };
        Self {
            shared: Arc::new(shared),
            workers: workers.max(1),
            name,
        }
    }

    /// Queues those of `tasks` that have no run in progress. The slow ones are late at once, and run last.
    ///
    /// # Errors
    ///
    /// `Worker` if there is no thread and none can be started.
    pub(crate) fn ask<'a>(
        &mut self,
        tasks: impl Iterator<Item = &'a Arc<Task<J>>>,
    ) -> Result<(), HostError> {
        let now = Instant::now();
        let mut queue = lock(&self.shared.queue);
        let mut slow = Vec::new();
        for task in tasks {
            let mut state = lock(&task.state);
            if state.asked.is_some() {
                continue;
            }
            state.asked = Some(now);
            state.late = state.is_slow;
            if state.late {
                queue.late += 1;
                slow.push(task.clone());
            } else {
                queue.pending += 1;
                queue.tasks.push_back(task.clone());
            }
        }
        queue.tasks.extend(slow);
        if queue.tasks.is_empty() {
            return Ok(());
        }
        if queue.idle > 0 {
            drop(queue);
            self.shared.work.notify_one();
            return Ok(());
        }
        self.help(queue)
    }

    /// Waits until `tasks` have ended or `patience` runs out; a task that misses that is not waited for again before a
    /// run of it was quick. Tasks blocked behind others get a thread of their own.
    ///
    /// # Errors
    ///
    /// As `ask`.
    pub(crate) fn wait<'a>(
        &mut self,
        tasks: impl Iterator<Item = &'a Arc<Task<J>>>,
        mut patience: impl Patience,
    ) -> Result<(), HostError> {
        let mut time_is_up = false;
        loop {
            let mut queue = lock(&self.shared.queue);
            if queue.pending > 0 {
                queue.waited_for = true;
                (queue, time_is_up) = patience.wait(&self.shared.done, queue);
                queue.waited_for = false;
            }
            if queue.pending == 0 || time_is_up {
                queue.give_up(tasks);
                return self.help_if_needed(queue);
            }
            self.help_if_needed(queue)?;
        }
    }

    fn help_if_needed(&self, queue: MutexGuard<'_, Queue<J>>) -> Result<(), HostError> {
        match queue.tasks.is_empty() || queue.idle > 0 {
            true => Ok(()),
            false => self.help(queue),
        }
    }

    /// Starts another thread for queued tasks, unless there are enough threads and one of them is free.
    fn help(&self, mut queue: MutexGuard<'_, Queue<J>>) -> Result<(), HostError> {
        /// Jobs need a few kilobytes; a hanging thread should cost no more than this.
        const STACK_BYTES: usize = 256 << 10;
        if queue.threads >= self.workers.max(queue.busy() + 1) {
            return Ok(());
        }
        // Counted before it runs, so that no second one is started.
        queue.threads += 1;
        drop(queue);
        let shared = self.shared.clone();
        let builder = thread::Builder::new()
            .name(self.name.into())
            .stack_size(STACK_BYTES);
        let Err(source) = builder.spawn(move || shared.work()) else {
            return Ok(());
        };
        let mut queue = lock(&self.shared.queue);
        queue.threads -= 1;
        match queue.threads {
            0 => Err(HostError::Worker { source }),
            // The existing threads will get to it.
            _ => Ok(()),
        }
    }
}

impl<J> Drop for Pool<J> {
    fn drop(&mut self) {
        lock(&self.shared.queue).closed = true;
        self.shared.work.notify_all();
    }
}

impl<J: Job> Shared<J> {
    fn work(&self) {
        let mut queue = lock(&self.queue);
        loop {
            if queue.closed {
                return;
            }
            let Some(task) = queue.tasks.pop_front() else {
                queue.idle += 1;
                queue = self.work.wait(queue).whole();
                queue.idle -= 1;
                continue;
            };
            drop(queue);
            let started = Instant::now();
            task.job.run();
            queue = lock(&self.queue);
            let is_slow = started.elapsed() >= self.slow_from;
            let ended = State {
                is_slow,
                ..State::default()
            };
            let state = std::mem::replace(&mut *lock(&task.state), ended);
            let count = if state.late {
                &mut queue.late
            } else {
                &mut queue.pending
            };
            *count = count.saturating_sub(1);
            if queue.pending == 0 && queue.waited_for {
                self.done.notify_one();
            }
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics with one of these locks held halfway through a change.
    mutex.lock().whole()
}

#[cfg(test)]
mod tests;
