//! Writes to the disk behind a trait, so that tests can make them fail.

use std::{
    fmt,
    fs::File,
    io::{self, Write as _},
};

/// What the queue asks of the disk.
pub(crate) trait Disk: Send + Sync + fmt::Debug {
    /// Appends bytes to a file; when it returns, the kernel has them. After an error it may have some.
    ///
    /// # Errors
    /// Fails as the system does.
    fn append(&self, file: &File, bytes: &[u8]) -> io::Result<()>;

    /// Makes what was appended survive a loss of power.
    ///
    /// # Errors
    /// Fails as the system does.
    fn sync(&self, file: &File) -> io::Result<()>;
}

/// The disk itself.
#[derive(Debug)]
pub(crate) struct RealDisk;

impl Disk for RealDisk {
    fn append(&self, mut file: &File, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }
}
