//! Attributes of a file that show whether it was written or replaced.

use std::{
    io,
    os::unix::fs::MetadataExt as _,
    path::Path,
    time::{Duration, SystemTime},
};

/// Longer than file systems' timestamp resolution.
const SETTLED: Duration = Duration::from_secs(2);

/// Identity, size and times of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct FileStamp {
    inode: (u64, u64),
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    has_settled: bool,
}

impl FileStamp {
    /// Reads the metadata of a file.
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        let found = std::fs::metadata(path)?;
        let age = SystemTime::now().duration_since(found.modified()?);
        Ok(Self {
            inode: (found.dev(), found.ino()),
            bytes: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
            has_settled: age.is_ok_and(|age| age >= SETTLED),
        })
    }

    /// Reports whether a file with this stamp now and before has surely the same content: it was old enough when it was
    /// read that any later write changes its times.
    pub(crate) fn is_unchanged_since(&self, before: Option<&Self>) -> bool {
        self.has_settled && before == Some(self)
    }

    /// Reports whether both are the same state of one file, as far as times can tell.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        (self.inode, self.bytes, self.modified, self.changed)
            == (other.inode, other.bytes, other.modified, other.changed)
    }

    /// Returns the size in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the whole seconds of the last modification.
    pub(crate) fn modified_seconds(&self) -> i64 {
        self.modified.0
    }

    /// Returns the time of the last modification.
    pub(crate) fn modified_ms(&self) -> i64 {
        let (seconds, ns) = self.modified;
        seconds.saturating_mul(1000).saturating_add(ns / 1_000_000)
    }

    /// Reports whether it was last modified long ago enough to be sure that nobody is writing it.
    pub(crate) fn has_settled(&self) -> bool {
        self.has_settled
    }
}
