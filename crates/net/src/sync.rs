//! How to handle a lock whose holder panicked.
//!
//! The standard library poisons the lock and leaves the decision to the next holder. The answer depends on what the
//! lock guards, so it has a name; clippy rejects `PoisonError::into_inner`, which gives no reason.
//!
//! **Invariant:** use [`Whole::whole`] only for locks whose every change takes effect in one step: a value replaced,
//! an entry added or removed, a counter raised. A panic between two such steps leaves a complete value. State changed
//! in several dependent steps is discarded after a panic, or stops whatever builds on it.
//!
//! `narthex-model` has the same trait for its dependents; this crate depends on none of ours.

use std::sync::PoisonError;

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
