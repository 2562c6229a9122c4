//! Faults that a test scripts: which operation, on which file, when, how often and how.
//!
//! **Invariant:** faults are independent: each counts the operations that match it; if several are due at once, the
//! one added first happens.

use narthex_model::sync::Whole as _;
use std::{
    io,
    path::Path,
    sync::{Arc, Condvar, Mutex},
    time::{Duration, Instant},
};

/// An operation of a disk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Op {
    /// Creating a file.
    Create,
    /// Opening a file for reading.
    Open,
    /// Reading from an open file, its length and identity included.
    Read,
    /// Listing a directory.
    List,
    /// Taking a lock.
    Lock,
    /// Appending to an open file.
    Append,
    /// Making an open file durable.
    Sync,
    /// Shortening a file.
    Truncate,
    /// Renaming a file.
    Rename,
    /// Removing a file or a directory.
    Remove,
    /// Making the names of a directory durable.
    SyncDir,
    /// Creating a directory.
    CreateDir,
}

impl Op {
    /// Reports whether the operation changes the disk or makes a change durable.
    pub(super) fn is_change(self) -> bool {
        !matches!(
            self,
            Self::Open | Self::Read | Self::List | Self::Lock | Self::CreateDir
        )
    }

    /// Reports whether the operation needs its own descriptor, if only while it lasts.
    pub(super) fn takes_descriptor(self) -> bool {
        matches!(
            self,
            Self::Create | Self::Open | Self::List | Self::Lock | Self::SyncDir
        )
    }
}

/// A fault.
#[derive(Clone, Debug)]
pub struct Fault {
    /// `None` for every changing operation.
    op: Option<Op>,
    path_part: Option<String>,
    skip: u64,
    times: u64,
    effect: Effect,
}

#[derive(Clone, Debug)]
pub(super) enum Effect {
    Fail(Option<i32>),
    /// An append writes this many bytes and fails; anything else just fails.
    Torn(usize),
    Hang(Gate),
}

impl Fault {
    /// Returns a fault of the next operation of one kind: an input/output error, once.
    #[must_use]
    pub fn on(op: Op) -> Self {
        Self::new(Some(op))
    }

    /// Returns a fault of the next changing operation of any kind: an input/output error, once.
    #[must_use]
    pub fn on_change() -> Self {
        Self::new(None)
    }

    fn new(op: Option<Op>) -> Self {
        Self {
            op,
            path_part: None,
            skip: 0,
            times: 1,
            effect: Effect::Fail(None),
        }
    }

    /// Limits the fault to paths with `part` in them.
    #[must_use]
    pub fn in_path(mut self, part: &str) -> Self {
        self.path_part = Some(part.to_owned());
        self
    }

    /// Lets `operations` matching operations pass first.
    #[must_use]
    pub fn after(mut self, operations: u64) -> Self {
        self.skip = operations;
        self
    }

    /// Repeats the fault `times` times.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    /// Makes the operation fail with an error of the operating system.
    #[must_use]
    pub fn errno(mut self, errno: i32) -> Self {
        self.effect = Effect::Fail(Some(errno));
        self
    }

    /// Makes an append write `bytes` bytes and fail.
    #[must_use]
    pub fn torn(mut self, bytes: usize) -> Self {
        self.effect = Effect::Torn(bytes);
        self
    }

    /// Makes the operation wait at `gate` before it is done.
    #[must_use]
    pub fn hang(mut self, gate: &Gate) -> Self {
        self.effect = Effect::Hang(gate.clone());
        self
    }

    fn fits(&self, op: Op, path: &Path) -> bool {
        let part = self.path_part.as_deref().unwrap_or_default();
        self.op
            .map_or_else(|| op.is_change(), |expected| expected == op)
            && path.to_string_lossy().contains(part)
    }
}

/// The faults of a disk that have not all happened.
#[derive(Debug, Default)]
pub(super) struct Script(Vec<Fault>);

impl Script {
    pub(super) fn add(&mut self, fault: Fault) {
        self.0.push(fault);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Counts an operation; returns its fault, if any.
    pub(super) fn next(&mut self, op: Op, path: &Path) -> Option<Effect> {
        let mut happens = None;
        for fault in self.0.iter_mut().filter(|fault| fault.fits(op, path)) {
            if fault.skip > 0 {
                fault.skip -= 1;
            } else if happens.is_none() {
                fault.times -= 1;
                happens = Some(fault.effect.clone());
            }
        }
        self.0.retain(|fault| fault.times > 0);
        happens
    }
}

/// A place where operations wait until a test lets them pass.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: usize,
    open: bool,
}

/// Longest wait of an operation, so that a test that forgets its gate fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(60);

impl Gate {
    /// Returns a closed gate.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets all operations pass from here on.
    pub fn open(&self) {
        self.lock().open = true;
        self.0.changed.notify_all();
    }

    /// Waits until an operation waits here; returns `false` if none came.
    #[must_use]
    pub fn wait_for_one(&self) -> bool {
        self.wait(|state| state.waiting > 0)
    }

    pub(super) fn pass(&self) -> io::Result<()> {
        self.lock().waiting += 1;
        self.0.changed.notify_all();
        let passed = self.wait(|state| state.open);
        self.lock().waiting -= 1;
        if passed {
            Ok(())
        } else {
            Err(io::ErrorKind::TimedOut.into())
        }
    }

    fn wait(&self, until: impl Fn(&State) -> bool) -> bool {
        let end = Instant::now() + PATIENCE;
        let mut state = self.lock();
        while !until(&state) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.0.changed.wait_timeout(state, left);
            state = waited.whole().0;
        }
        true
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().whole()
    }
}
