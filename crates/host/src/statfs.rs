//! `statfs` on threads of its own: a mount that never answers costs a thread, not a round.
//!
//! Invariant: at most one call per mount is under way. Threads that hang are not counted against the limit, so that
//! the other mounts go on being asked; there are never more threads than mounts plus the limit.

use std::collections::VecDeque;
use std::ffi::CString;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::error::HostError;

/// What a file system says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[doc(hidden)]
pub struct FsStat {
    /// Size of a block.
    pub block_bytes: u64,
    /// Blocks in all.
    pub blocks: u64,
    /// Free blocks.
    pub blocks_free: u64,
    /// Blocks that users may take.
    pub blocks_available: u64,
    /// File nodes in all.
    pub files: u64,
    /// Free file nodes.
    pub files_free: u64,
    /// The mount or its super block is read-only.
    pub read_only: bool,
}

/// Asks for a file system's size. May block for ever.
#[doc(hidden)]
pub trait Statfs: Send + Sync + 'static {
    /// Asks for the file system that holds `path`.
    ///
    /// # Errors
    ///
    /// The kernel's error.
    fn statfs(&self, path: &std::ffi::CStr) -> Result<FsStat, Errno>;
}

/// The system call.
pub(crate) struct KernelStatfs;

impl Statfs for KernelStatfs {
    fn statfs(&self, path: &std::ffi::CStr) -> Result<FsStat, Errno> {
        /// `ST_RDONLY` of `f_flags`: the mount or the super block is read-only.
        const READ_ONLY: u64 = 1;
        let answer = loop {
            match rustix::fs::statfs(path) {
                Err(Errno::INTR) => {}
                other => break other?,
            }
        };
        Ok(FsStat {
            block_bytes: answer.f_bsize as u64,
            blocks: answer.f_blocks,
            blocks_free: answer.f_bfree,
            blocks_available: answer.f_bavail,
            files: answer.f_files,
            files_free: answer.f_ffree,
            read_only: answer.f_flags as u64 & READ_ONLY != 0,
        })
    }
}

/// One mount's place in the pool.
#[derive(Debug)]
pub(crate) struct Mount {
    path: CString,
    state: Mutex<State>,
}

#[derive(Debug, Default, Clone, Copy)]
struct State {
    /// When the call under way was queued.
    asked: Option<Instant>,
    /// That call missed a deadline: nobody waits for it any more.
    late: bool,
    /// The last answer: an error or sizes.
    answer: Option<Result<FsStat, Errno>>,
}

/// What is known about a mount.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Answer {
    /// The last answer, if there was one.
    pub(crate) last: Option<Result<FsStat, Errno>>,
    /// How long the call under way has taken so far.
    pub(crate) waiting: Option<Duration>,
}

impl Answer {
    /// Returns an answer that was not waited for.
    pub(crate) fn now(answer: Result<FsStat, Errno>) -> Self {
        Self {
            last: Some(answer),
            waiting: None,
        }
    }
}

impl Mount {
    pub(crate) fn new(path: CString) -> Arc<Self> {
        Arc::new(Self {
            path,
            state: Mutex::default(),
        })
    }

    pub(crate) fn answer(&self) -> Answer {
        let state = *lock(&self.state);
        Answer {
            last: state.answer,
            waiting: state.asked.map(|asked| asked.elapsed()),
        }
    }
}

/// Threads that call `statfs`. They are started when there is work that no idle thread takes, and end with the pool.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    workers: usize,
    threads: usize,
}

struct Shared {
    statfs: Box<dyn Statfs>,
    queue: Mutex<Queue>,
    work: Condvar,
    done: Condvar,
}

#[derive(Default)]
struct Queue {
    mounts: VecDeque<Arc<Mount>>,
    /// Threads that wait for work.
    idle: u32,
    /// Mounts, queued or being asked, that the collector still waits for.
    pending: usize,
    /// Mounts, queued or being asked, that missed a deadline.
    late: usize,
    /// The collector waits for `done`.
    waited_for: bool,
    closed: bool,
}

impl Queue {
    /// Calls that are under way.
    fn busy(&self) -> usize {
        (self.pending + self.late).saturating_sub(self.mounts.len())
    }

    /// Stops waiting for those of `mounts` that have not answered.
    fn give_up<'a>(&mut self, mounts: impl Iterator<Item = &'a Arc<Mount>>) {
        if self.pending == 0 {
            return;
        }
        for mount in mounts {
            let mut state = lock(&mount.state);
            if state.asked.is_some() && !state.late {
                state.late = true;
                self.pending = self.pending.saturating_sub(1);
                self.late += 1;
            }
        }
    }
}

impl Pool {
    pub(crate) fn new(statfs: Box<dyn Statfs>, workers: usize) -> Self {
        let shared = Shared {
            statfs,
            queue: Mutex::default(),
            work: Condvar::new(),
            done: Condvar::new(),
        };
        Self {
            shared: Arc::new(shared),
            workers: workers.max(1),
            threads: 0,
        }
    }

    /// Asks a mount that is known to answer from memory, at once and on the caller's thread.
    pub(crate) fn ask_now(&self, mount: &Mount) -> Result<FsStat, Errno> {
        self.shared.statfs.statfs(&mount.path)
    }

    /// Asks all `mounts` that have no call under way.
    ///
    /// # Errors
    ///
    /// `Worker` when no thread can be started and none is there.
    pub(crate) fn ask<'a>(
        &mut self,
        mounts: impl Iterator<Item = &'a Arc<Mount>>,
    ) -> Result<(), HostError> {
        let now = Instant::now();
        let mut queue = lock(&self.shared.queue);
        for mount in mounts {
            let mut state = lock(&mount.state);
            if state.asked.is_none() {
                state.asked = Some(now);
                queue.mounts.push_back(mount.clone());
                queue.pending += 1;
            }
        }
        if queue.mounts.is_empty() {
            return Ok(());
        }
        let (idle, busy) = (queue.idle, queue.busy());
        drop(queue);
        if idle > 0 {
            self.shared.work.notify_one();
            return Ok(());
        }
        self.help(busy)
    }

    /// Waits until `mounts` have answered or `deadline` has passed; who misses it is not waited for again before it
    /// has answered. Mounts that are kept waiting by others get a thread of their own.
    ///
    /// # Errors
    ///
    /// As `ask`.
    pub(crate) fn wait<'a>(
        &mut self,
        mounts: impl Iterator<Item = &'a Arc<Mount>>,
        deadline: Instant,
    ) -> Result<(), HostError> {
        /// Local file systems answer within microseconds: one thread does them all. What takes longer gets help.
        const HELP_AFTER: Duration = Duration::from_millis(2);
        loop {
            let mut queue = lock(&self.shared.queue);
            let left = deadline.saturating_duration_since(Instant::now());
            if queue.pending > 0 && !left.is_zero() {
                queue.waited_for = true;
                let step = self.shared.done.wait_timeout(queue, left.min(HELP_AFTER));
                queue = step.unwrap_or_else(PoisonError::into_inner).0;
                queue.waited_for = false;
            }
            let ended = queue.pending == 0 || left.is_zero();
            let (needs_help, busy) = (!queue.mounts.is_empty() && queue.idle == 0, queue.busy());
            if ended {
                queue.give_up(mounts);
                drop(queue);
                return if needs_help { self.help(busy) } else { Ok(()) };
            }
            drop(queue);
            if needs_help {
                self.help(busy)?;
            }
        }
    }

    /// Starts another thread for queued mounts, unless enough are there of which not all are busy.
    fn help(&mut self, busy: usize) -> Result<(), HostError> {
        if self.threads < self.workers.max(busy + 1) {
            return self.start_thread();
        }
        Ok(())
    }

    fn start_thread(&mut self) -> Result<(), HostError> {
        /// `statfs` needs a few hundred bytes; a thread per hanging mount should cost no more than this.
        const STACK_BYTES: usize = 64 << 10;
        let shared = self.shared.clone();
        let builder = thread::Builder::new()
            .name("host-statfs".into())
            .stack_size(STACK_BYTES);
        match builder.spawn(move || shared.work()) {
            Ok(_) => self.threads += 1,
            Err(source) if self.threads == 0 => return Err(HostError::Worker { source }),
            // The threads that are there get to it.
            Err(_) => {}
        }
        Ok(())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        lock(&self.shared.queue).closed = true;
        self.shared.work.notify_all();
    }
}

impl Shared {
    fn work(&self) {
        let mut queue = lock(&self.queue);
        loop {
            let Some(mount) = queue.mounts.pop_front() else {
                if queue.closed {
                    return;
                }
                queue.idle += 1;
                queue = self
                    .work
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner);
                queue.idle -= 1;
                continue;
            };
            drop(queue);
            let answer = self.statfs.statfs(&mount.path);
            queue = lock(&self.queue);
            let state = std::mem::replace(
                &mut *lock(&mount.state),
                State {
                    asked: None,
                    late: false,
                    answer: Some(answer),
                },
            );
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while it holds one of these locks halfway through a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
