//! Tasks that the kernel detected as hung.
//!
//! Invariant: a kernel that does not detect them has no data.

use std::path::Path;

use crate::collector::numbers::{Numbers, Table};
use crate::sink::Desc;

const KERNEL_HUNG: &[Table] = &[(
    "sys/kernel/hung_task_detect_count",
    &[(
        0,
        Desc::counter(
            "node_kernel_hung_tasks_total",
            "Total number of tasks that have been detected as hung since the system booted.",
        ),
    )],
)];

pub(crate) fn new(procfs: &Path) -> Numbers {
    Numbers::new(KERNEL_HUNG, procfs)
}
