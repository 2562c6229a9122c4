//! The write-ahead log: everything acknowledged, in order.
//!
//! Files `wal/00000001`, `wal/00000002`, … of batches of records; bytes in docs/format/wal.md.
//!
//! **Invariant:** every file can be read without the others; a file is synced before the next one is created, so that
//! a prefix survives a loss of power.

pub(crate) mod batch;
mod log;
mod pieces;
pub(crate) mod record;
mod replay;
mod symbols;
mod tag;

pub(crate) use log::{Content, FileMarks, StripMark, Ticket, Wal, WalOptions};
pub use replay::ReplayProgress;
pub(crate) use replay::{FileEnd, ReplayTo, replay};

use std::path::{Path, PathBuf};

/// The log's directory below the data directory.
pub(crate) const DIR: &str = "wal";

/// Returns the path of file `number`.
pub(crate) fn path_of(dir: &Path, number: u32) -> PathBuf {
    dir.join(format!("{number:08}"))
}

/// Returns the number of the WAL file named `name`.
pub(crate) fn number_of(name: &str) -> Option<u32> {
    (name.len() == 8 && name.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| name.parse().ok())?
}
