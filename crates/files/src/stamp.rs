//! Attributes of a file that show whether it was written or replaced.

use std::{
    fs::Metadata,
    io,
    os::unix::fs::MetadataExt as _,
    path::Path,
    time::{Duration, SystemTime},
};

/// Longer than file systems' timestamp resolution.
const SETTLED: Duration = Duration::from_secs(2);

/// Identity, size and times of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FileStamp {
    inode: (u64, u64),
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    has_settled: bool,
}

impl FileStamp {
    /// Reads the metadata of a file.
    ///
    /// # Errors
    /// Fails when it cannot be read.
    pub fn read(path: &Path) -> io::Result<Self> {
        std::fs::metadata(path).map(|found| Self::new(&found))
    }

    pub(crate) fn new(found: &Metadata) -> Self {
        let age = found
            .modified()
            .ok()
            .and_then(|modified| SystemTime::now().duration_since(modified).ok());
        Self {
            inode: (found.dev(), found.ino()),
            bytes: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
            has_settled: age.is_some_and(|age| age >= SETTLED),
        }
    }

    /// Reports whether a file with this stamp now and before has surely the same content: it was old enough when it was
    /// read that any later write changes its times.
    #[must_use]
    pub fn is_unchanged_since(&self, before: Option<&Self>) -> bool {
        self.has_settled && before == Some(self)
    }

    /// Reports whether both are the same state of one file, as far as times can tell.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        (self.inode, self.bytes, self.modified, self.changed)
            == (other.inode, other.bytes, other.modified, other.changed)
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the whole seconds of the last modification.
    #[must_use]
    pub fn modified_seconds(&self) -> i64 {
        self.modified.0
    }

    /// Returns the time of the last modification.
    #[must_use]
    pub fn modified_ms(&self) -> i64 {
        self.modified
            .0
            .saturating_mul(1000)
            .saturating_add(self.modified.1 / 1_000_000)
    }

    /// Reports whether it was last modified long ago enough to be sure that nobody is writing it.
    #[must_use]
    pub fn has_settled(&self) -> bool {
        self.has_settled
    }
}
