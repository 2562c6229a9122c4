//! All disk access of the storage engine, behind two small traits.
//!
//! **Invariant:** callers rely only on the documented durability: bytes survive a loss of power once `sync` of their
//! file returned *and* `sync_dir` of its directory returned after the file was created or renamed. Bytes passed to
//! `append` survive the end of this process, not the end of the machine.

mod faulty;
mod read_only;
mod real;

pub use faulty::{Fault, FaultyIo, Gate, Op, PowerLoss};
pub use read_only::ReadOnlyIo;
pub use real::RealIo;

use std::{fmt, io, path::Path, sync::Arc};

/// A file system.
pub trait Io: Send + Sync + fmt::Debug {
    /// Creates a file for appending; fails when it exists. Its name survives a loss of power after `sync_dir`.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn AppendFile>>;

    /// Opens an existing file for reading at any position.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>>;

    /// Shortens a file to `len_bytes` and makes that durable.
    fn truncate(&self, path: &Path, len_bytes: u64) -> io::Result<()>;

    /// Renames a file, replacing any file at `to`; atomic, durable after `sync_dir`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file; open readers keep it. Durable after `sync_dir`.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Removes a directory with its contents; not atomic. Durable after `sync_dir` of its parent.
    fn remove_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Creates a directory and its parents; succeeds if it exists.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Lists the names in a directory, sorted; nothing when it does not exist.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Makes the names in `dir` durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Takes the lock file at `path`, creating it; `None` when another process has it. Dropping the lock releases it.
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>>;

    /// Returns the bytes that can still be written below `dir`.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;
}

/// A file that grows at its end; one writer at a time.
pub trait AppendFile: Send + Sync + fmt::Debug {
    /// Appends all of `bytes`; when it returns, the kernel has them. After an error any part may have been appended.
    fn append(&self, bytes: &[u8]) -> io::Result<()>;

    /// Returns when everything appended before survives a loss of power.
    ///
    /// After an error the file's unsynced bytes are in an unknown state: the caller must not retry.
    fn sync(&self) -> io::Result<()>;

    /// Shortens the file; durable after `sync`.
    fn truncate(&self, len_bytes: u64) -> io::Result<()>;
}

/// A file that is read at any position, from any thread.
pub trait ReadFile: Send + Sync + fmt::Debug {
    /// Returns the file's length.
    fn len_bytes(&self) -> io::Result<u64>;

    /// Returns an identity that differs from that of any other file later at its path.
    fn identity(&self) -> io::Result<FileIdentity>;

    /// Reads up to `buffer.len()` bytes at `offset`; 0 at the end of the file.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Fills `buffer` from `offset`; fails with `UnexpectedEof` when the file is too short.
    fn read_exact_at(&self, mut offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.read_at(offset, buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    offset += n as u64;
                    buffer = &mut buffer[n..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Distinguishes a file from any other later at its path, unless it is changed in place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FileIdentity {
    /// Device and inode.
    pub file: (u64, u64),
    /// Seconds and nanoseconds of the last change, because inodes are reused.
    pub modified: (i64, i64),
    /// Length, bytes.
    pub len_bytes: u64,
}

/// A held lock file.
pub trait Lock: Send + Sync + fmt::Debug {}

/// Reports whether an error means that the disk or a quota is full.
#[must_use]
pub fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// Reports whether an error means that this process or the system is out of descriptors or memory for now.
#[must_use]
pub fn is_exhausted(error: &io::Error) -> bool {
    // EMFILE, ENFILE, ENOMEM: std has a kind only for the last.
    matches!(error.raw_os_error(), Some(23 | 24)) || error.kind() == io::ErrorKind::OutOfMemory
}

#[cfg(test)]
mod tests;
