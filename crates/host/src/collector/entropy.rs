//! The kernel's entropy pool.
//!
//! Invariant: unless both files exist there is no data.

use std::path::Path;

use crate::collector::numbers::{Numbers, Table};
use crate::sink::Desc;

const ENTROPY: &[Table] = &[
    (
        "sys/kernel/random/entropy_avail",
        &[(
            0,
            Desc::gauge("node_entropy_available_bits", "Bits of available entropy."),
        )],
    ),
    (
        "sys/kernel/random/poolsize",
        &[(
            0,
            Desc::gauge("node_entropy_pool_size_bits", "Bits of entropy pool."),
        )],
    ),
];

pub(crate) fn new(procfs: &Path) -> Numbers {
    Numbers::new(ENTROPY, procfs)
}
