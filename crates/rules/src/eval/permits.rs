//! Permits for evaluating rules of a group at once, shared by all groups.
//!
//! **Invariant:** nobody waits for a permit: who gets none evaluates alone.

use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};

/// Permits that are free.
#[derive(Debug, Default)]
pub(super) struct Permits {
    most: AtomicUsize,
    taken: AtomicUsize,
    worth_ns: AtomicU64,
}

/// A permit, until it is dropped.
#[derive(Debug)]
pub(super) struct Permit<'a>(&'a Permits);

impl Permits {
    /// Sets how many there are, and for how much work one is taken.
    pub(super) fn set(&self, most: usize, worth: Duration) {
        let worth_ns = u64::try_from(worth.as_nanos()).unwrap_or(u64::MAX);
        self.worth_ns.store(worth_ns, Ordering::Relaxed);
        self.most.store(most, Ordering::Relaxed);
    }

    /// Returns how many permits `tasks` tasks that take `expected` together are worth.
    pub(super) fn wanted(&self, tasks: usize, expected: Duration) -> usize {
        let worth_ns = u128::from(self.worth_ns.load(Ordering::Relaxed));
        let shares = expected.as_nanos().checked_div(worth_ns);
        let shares = shares.map_or(tasks, |shares| usize::try_from(shares).unwrap_or(tasks));
        shares.min(tasks).saturating_sub(1)
    }

    /// Reports whether there are any.
    pub(super) fn exist(&self) -> bool {
        self.most.load(Ordering::Relaxed) > 0
    }

    /// Takes a free permit.
    pub(super) fn try_take(&self) -> Option<Permit<'_>> {
        let most = self.most.load(Ordering::Relaxed);
        let next = |taken| (taken < most).then(|| taken + 1);
        let took = self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        took.is_ok().then(|| Permit(self))
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_as_set() {
        let permits = Permits::default();
        assert!(!permits.exist() && permits.try_take().is_none());
        permits.set(2, Duration::from_millis(1));
        let first = permits.try_take();
        let second = permits.try_take();
        assert!(permits.exist() && first.is_some() && second.is_some());
        assert!(permits.try_take().is_none());
        drop(first);
        assert!(permits.try_take().is_some());
    }

    #[test]
    fn a_permit_is_wanted_for_what_it_is_worth() {
        let permits = Permits::default();
        let ms = Duration::from_millis;
        permits.set(4, ms(2));
        for (tasks, expected, wanted) in [(5, 3, 0), (5, 4, 1), (5, 7, 2), (3, 90, 2), (0, 90, 0)] {
            assert_eq!(permits.wanted(tasks, ms(expected)), wanted);
        }
        permits.set(4, Duration::ZERO);
        assert_eq!(permits.wanted(5, Duration::ZERO), 4);
    }
}
