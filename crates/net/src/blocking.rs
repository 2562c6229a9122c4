//! Long computations inside async code.
//!
//! Invariant: work on more than [`LARGE_BYTES`] never keeps the other tasks of a multi-threaded
//! runtime's worker waiting.

use tokio::runtime::{Handle, RuntimeFlavor};

/// About a quarter of a millisecond of inflating, one of deflating.
const LARGE_BYTES: usize = 256 << 10;

/// Runs `work` here, having handed the worker's other tasks away when it concerns many bytes.
///
/// For what takes some nanoseconds a byte and is not worth a thread of its own.
pub fn run_long<R>(bytes: usize, work: impl FnOnce() -> R) -> R {
    let threads = Handle::try_current().map(|h| h.runtime_flavor());
    match threads {
        Ok(RuntimeFlavor::MultiThread) if bytes >= LARGE_BYTES => tokio::task::block_in_place(work),
        _ => work(),
    }
}
