//! Locks and threads of a program that ends with a panic of any of them.

use std::{
    panic::resume_unwind,
    sync::{Mutex, MutexGuard, PoisonError},
    thread::ScopedJoinHandle,
};

/// Takes a lock; what a panic left behind it is counted or printed, nothing is built on it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a thread, whose panic is the caller's.
pub(crate) fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}
