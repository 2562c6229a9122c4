//! Segments that client libraries write. These tests start processes, which until they run hold copies of every lock:
//! that would keep the writers of other tests alive.

mod vectors;
