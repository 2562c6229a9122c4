//! What to do with a lock that somebody held while panicking.
//!
//! The standard library poisons it and asks whoever comes next. The answer depends on what the lock guards, so it has a
//! name: `PoisonError::into_inner`, which says nothing, is refused by clippy.
//!
//! **Invariant:** [`Whole::whole`] is for locks whose every change takes effect in one step: a value that is replaced, an
//! entry that comes or goes, a number that is counted. A panic between two such steps leaves something complete. What is
//! changed in several steps that need each other is thrown away after a panic, or stops what builds on it.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard};

/// Results of locking, and of waiting with a lock.
pub trait Whole {
    /// What they are without the question of poison.
    type Guard;

    /// Returns the guard, also when a panic has poisoned the lock: it guards a value that panics leave whole.
    fn whole(self) -> Self::Guard;
}

impl<G> Whole for Result<G, PoisonError<G>> {
    type Guard = G;

    fn whole(self) -> G {
        #[expect(
            clippy::disallowed_methods,
            reason = "the one place, with a name that says why"
        )]
        self.unwrap_or_else(PoisonError::into_inner)
    }
}

/// Locks of what can be made anew.
pub trait Renew {
    /// What they guard.
    type Value;
    /// What holding one is.
    type Guard<'a>
    where
        Self: 'a;

    /// Locks for writing; where a panic has poisoned the lock, what it guards is replaced by what `make` makes of it.
    ///
    /// The lock is good again then. `make` must not trust anything of what is passed to it that takes several steps.
    fn lock_or_renew(&self, make: impl FnOnce(&Self::Value) -> Self::Value) -> Self::Guard<'_>;
}

impl<T> Renew for Mutex<T> {
    type Value = T;
    type Guard<'a>
        = MutexGuard<'a, T>
    where
        T: 'a;

    fn lock_or_renew(&self, make: impl FnOnce(&T) -> T) -> MutexGuard<'_, T> {
        match self.lock() {
            Ok(guard) => guard,
            poisoned => {
                let mut guard = poisoned.whole();
                *guard = make(&guard);
                self.clear_poison();
                guard
            }
        }
    }
}

impl<T> Renew for RwLock<T> {
    type Value = T;
    type Guard<'a>
        = RwLockWriteGuard<'a, T>
    where
        T: 'a;

    fn lock_or_renew(&self, make: impl FnOnce(&T) -> T) -> RwLockWriteGuard<'_, T> {
        match self.write() {
            Ok(guard) => guard,
            poisoned => {
                let mut guard = poisoned.whole();
                *guard = make(&guard);
                self.clear_poison();
                guard
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        sync::{Condvar, Mutex, RwLock},
        time::Duration,
    };

    fn poison(work: impl FnOnce()) {
        assert!(catch_unwind(AssertUnwindSafe(work)).is_err());
    }

    #[test]
    fn a_whole_value_outlives_a_panic() {
        let (mutex, lock, changed) = (Mutex::new(1), RwLock::new(1), Condvar::new());
        poison(|| {
            let (mut value, mut other) = (mutex.lock().unwrap(), lock.write().unwrap());
            (*value, *other) = (2, 2);
            panic!("between two steps");
        });
        assert!(mutex.lock().is_err() && lock.read().is_err());
        assert_eq!((*mutex.lock().whole(), *lock.read().whole()), (2, 2));
        let (value, _) = changed
            .wait_timeout(mutex.lock().whole(), Duration::from_millis(1))
            .whole();
        assert_eq!(*value, 2);
    }

    #[test]
    fn what_a_panic_left_half_done_is_made_anew_once() {
        let (mutex, lock) = (Mutex::new((1, "whole")), RwLock::new((1, "whole")));
        for _ in 0..2 {
            assert_eq!(*mutex.lock_or_renew(|_| (7, "not asked for")), (1, "whole"));
            assert_eq!(*lock.lock_or_renew(|_| (7, "not asked for")), (1, "whole"));
            poison(|| {
                let (mut value, mut other) = (mutex.lock().unwrap(), lock.write().unwrap());
                (value.1, other.1) = ("half", "half");
                panic!("between two steps");
            });
            assert_eq!(*mutex.lock_or_renew(|old| (old.0, "whole")), (1, "whole"));
            assert_eq!(*lock.lock_or_renew(|old| (old.0, "whole")), (1, "whole"));
            assert!(mutex.lock().is_ok() && lock.read().is_ok());
        }
    }
}
