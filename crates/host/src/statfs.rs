//! `statfs` of one mount as a job for the pool.
//!
//! Invariant: an answer is the last complete one; a call in progress does not invalidate it.

use std::ffi::CString;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::io::Errno;

use crate::cost;
use crate::pool::{Job, Task, lock};

/// Size and state of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[doc(hidden)]
pub struct FsStat {
    /// Size of a block.
    pub block_bytes: u64,
    /// Total blocks.
    pub blocks: u64,
    /// Free blocks.
    pub blocks_free: u64,
    /// Blocks available to unprivileged users.
    pub blocks_available: u64,
    /// Total inodes.
    pub files: u64,
    /// Free inodes.
    pub files_free: u64,
    /// Whether the mount or its super block is read-only.
    pub read_only: bool,
}

/// Queries a file system's size. May block forever.
#[doc(hidden)]
pub trait Statfs: Send + Sync + 'static {
    /// Queries the file system that contains `path`.
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
        cost::count(0);
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

/// A mount whose size is queried.
pub(crate) struct Mount {
    statfs: Arc<dyn Statfs>,
    path: CString,
    answer: Mutex<Option<Result<FsStat, Errno>>>,
}

/// State of a mount.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Answer {
    /// The last answer, if there was one.
    pub(crate) last: Option<Result<FsStat, Errno>>,
    /// How long the current call has taken so far.
    pub(crate) waiting: Option<Duration>,
}

impl Answer {
    /// Returns an answer that needed no waiting.
    pub(crate) fn now(answer: Result<FsStat, Errno>) -> Self {
        Self {
            last: Some(answer),
            waiting: None,
        }
    }

    /// Returns the state of the mount of `task`.
    pub(crate) fn latest(task: &Task<Mount>) -> Self {
        // In this order: a call that ends in between provides its own answer.
        let waiting = task.waiting();
        Self {
            last: *lock(&task.answer),
            waiting,
        }
    }
}

impl Mount {
    pub(crate) fn task(statfs: &Arc<dyn Statfs>, path: CString) -> Arc<Task<Self>> {
        Task::new(Self {
            statfs: statfs.clone(),
            path,
            answer: Mutex::default(),
        })
    }

    /// Queries a mount that is known to answer from memory, on the caller's thread.
    pub(crate) fn ask_now(&self) -> Result<FsStat, Errno> {
        self.statfs.statfs(&self.path)
    }
}

impl Job for Mount {
    fn run(&self) {
        let answer = self.statfs.statfs(&self.path);
        *lock(&self.answer) = Some(answer);
    }
}
