//! Segments that client libraries write. These tests start processes, which until they run hold copies of every lock:
//! that would keep the writers of other tests alive.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod vectors;
