//! Stack space for deep recursion.
//!
//! **Invariant:** recursion over a query runs on a stack that fits `MAX_DEPTH` levels, whatever the caller's thread;
//! ordinary queries stay on that thread.

use std::{io, panic, thread};

/// Number of levels that fit any thread's stack.
const SHALLOW: usize = 48;

/// Generous, for debug builds with frames several times larger; untouched pages cost nothing.
const BYTES_PER_LEVEL: usize = 64 << 10;

/// Reports whether a recursion of `levels` fits any thread's stack.
pub(crate) fn is_shallow(levels: usize) -> bool {
    levels <= SHALLOW
}

/// Runs `work`, which recurses up to `levels` deep, on a large enough stack.
pub(crate) fn with_room<T: Send>(levels: usize, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    if is_shallow(levels) {
        return Ok(work());
    }
    let bytes = levels.min(crate::ast::MAX_DEPTH as usize + SHALLOW) * BYTES_PER_LEVEL;
    thread::scope(|scope| {
        let spawned = thread::Builder::new()
            .stack_size(bytes)
            .name("promql-deep".to_owned())
            .spawn_scoped(scope, work);
        match spawned?.join() {
            Ok(value) => Ok(value),
            Err(payload) => panic::resume_unwind(payload),
        }
    })
}
