//! How to handle a lock whose holder panicked.
//!
//! The standard library poisons the lock and leaves the decision to the next holder. The answer depends on what the
//! lock guards, so it has a name; clippy rejects `PoisonError::into_inner`, which gives no reason.
//!
//! **Invariant:** use [`Whole::whole`] only for locks whose every change takes effect in one step: a value replaced,
//! an entry added or removed, a counter raised. A panic between two such steps leaves a complete value. State changed
//! in several dependent steps is discarded after a panic, or stops whatever builds on it.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard};

/// Results of locking, and of waiting with a lock.
pub trait Whole {
    /// The guard, without the poison error.
    type Guard;

    /// Returns the guard even when a panic has poisoned the lock: the guarded value is always complete.
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

/// Locks whose value can be rebuilt.
pub trait Renew {
    /// The guarded value.
    type Value;
    /// The guard of a held lock.
    type Guard<'a>
    where
        Self: 'a;

    /// Locks for writing; replaces the value of a poisoned lock with the result of `make`.
    ///
    /// This clears the poison. `make` must not trust any part of its argument that is changed in several steps.
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
