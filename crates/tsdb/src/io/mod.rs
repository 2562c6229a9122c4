//! All disk access of the storage engine, behind two small traits.
//!
//! **Invariant:** what a method promises about durability is all that callers rely on: bytes survive a loss of
//! power once `sync` of their file returned *and* `sync_dir` of its directory returned after the file was created
//! or renamed. Bytes handed over by `append` survive the end of this process, not the end of the machine.

mod faulty;
mod real;

pub use faulty::{Fault, FaultyIo, Gate, Op, PowerLoss};
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

    /// Gives a file another name, replacing what had it; atomic, durable after `sync_dir`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file; open readers keep it. Durable after `sync_dir`.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Removes a directory and all in it; not atomic. Durable after `sync_dir` of its parent.
    fn remove_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Creates a directory and its parents; one that exists is no error.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Lists the names in a directory, sorted; nothing when it does not exist.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Makes the names in `dir` durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Takes the lock file at `path`, creating it; `None` when another process has it. Dropping it gives it back.
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

    /// Returns what tells this file from any other that takes its path later.
    fn identity(&self) -> io::Result<FileIdentity>;

    /// Reads up to `buffer.len()` bytes at `offset`; 0 at the end of the file.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Fills `buffer` from `offset`; fails with `UnexpectedEof` when the file ends before.
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

/// What tells a file from any other that takes its path later, as long as nobody changes it in place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FileIdentity {
    /// Device and inode.
    pub file: (u64, u64),
    /// Seconds and nanoseconds of the last change: inodes are used again.
    pub modified: (i64, i64),
    /// The length.
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

/// Reports whether an error means that this process or the system has no descriptor or memory left for now.
#[must_use]
pub fn is_exhausted(error: &io::Error) -> bool {
    // EMFILE, ENFILE, ENOMEM: std has a kind for the last only.
    matches!(error.raw_os_error(), Some(23 | 24)) || error.kind() == io::ErrorKind::OutOfMemory
}

#[cfg(test)]
mod tests;
