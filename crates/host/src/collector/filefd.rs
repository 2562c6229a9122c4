//! Open files and their limit.
//!
//! Invariant: the second number, which the kernel always prints as 0, is not exported.

use std::path::Path;

use crate::collector::numbers::{Numbers, Table};
use crate::sink::Desc;

const FILEFD: &[Table] = &[(
    "sys/fs/file-nr",
    &[
        (
            0,
            Desc::gauge(
                "node_filefd_allocated",
                "File descriptor statistics: allocated.",
            ),
        ),
        (
            2,
            Desc::gauge(
                "node_filefd_maximum",
                "File descriptor statistics: maximum.",
            ),
        ),
    ],
)];

pub(crate) fn new(procfs: &Path) -> Numbers {
    Numbers::new(FILEFD, procfs)
}
