//! Locks and threads of a program that ends if any of them panics.

use std::{
    panic::resume_unwind,
    sync::{Mutex, MutexGuard, PoisonError},
    thread::ScopedJoinHandle,
};

/// Takes a lock, ignoring poison: data left by a panic is only counted or printed, nothing depends on it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a thread, propagating its panic.
pub(crate) fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}
