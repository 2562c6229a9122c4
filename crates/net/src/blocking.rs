//! Long computations inside async code.
//!
//! Invariant: work on more than [`LARGE_BYTES`] never blocks the other tasks on the same worker of a multi-threaded
//! runtime.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Takes about a quarter of a millisecond to inflate, one to deflate.
const LARGE_BYTES: usize = 256 << 10;

/// Runs `work` on this thread; for many bytes, first moves the worker's other tasks to another thread.
///
/// Meant for work of some nanoseconds per byte that does not justify its own thread.
pub fn run_long<R>(bytes: usize, work: impl FnOnce() -> R) -> R {
    let threads = Handle::try_current().map(|h| h.runtime_flavor());
    match threads {
        Ok(RuntimeFlavor::MultiThread) if bytes >= LARGE_BYTES => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// Lets tasks run that others' input has made ready, and looks for such input first.
pub async fn yield_now() {
    tokio::task::yield_now().await;
}
