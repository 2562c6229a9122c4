//! Threads that help large queries read.
//!
//! **Invariant:** all queries of an engine together have at most as many helpers at once as it was given.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Threads that help the queries of an engine, shared by all of them.
#[derive(Clone, Debug)]
pub struct Helpers {
    free: Arc<AtomicUsize>,
    start: fn(),
    /// Work that a query does alone, in cells.
    alone: usize,
}

/// Some two milliseconds of reading.
const ALONE: usize = 256 << 10;

/// The right to one helping thread, until it is dropped.
#[derive(Debug)]
pub(crate) struct Helper {
    free: Arc<AtomicUsize>,
    start: fn(),
}

impl Helpers {
    /// Allows at most `most` threads at once, each of which calls `start` first.
    #[must_use]
    pub fn new(most: usize, start: fn()) -> Self {
        Self {
            free: Arc::new(AtomicUsize::new(most)),
            start,
            alone: ALONE,
        }
    }

    /// Lets them help small queries too, for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn at_once(self) -> Self {
        Self { alone: 0, ..self }
    }

    /// Allows none: every query runs on its caller's thread alone.
    #[must_use]
    pub fn none() -> Self {
        Self::new(0, || ())
    }

    /// Returns how much work, in cells, a query does before it asks for help.
    pub(crate) fn alone(&self) -> usize {
        self.alone
    }

    /// Returns the right to a helper, if one is free.
    pub(crate) fn try_acquire(&self) -> Option<Helper> {
        let less = |free: usize| free.checked_sub(1);
        let taken = self
            .free
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        taken.ok().map(|_| Helper {
            free: Arc::clone(&self.free),
            start: self.start,
        })
    }
}

impl Helper {
    /// Prepares the calling thread.
    pub(crate) fn start(&self) {
        (self.start)();
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.free.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::Helpers;

    #[test]
    fn there_are_only_so_many_at_once() {
        let helpers = Helpers::new(2, || ());
        let same = helpers.clone();
        let (first, second) = (helpers.try_acquire(), same.try_acquire());
        assert!(first.is_some() && second.is_some());
        assert!(helpers.try_acquire().is_none() && same.try_acquire().is_none());
        drop(first);
        assert!(helpers.try_acquire().is_some());
        assert!(Helpers::none().try_acquire().is_none());
    }
}
