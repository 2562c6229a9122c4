//! What to do with a lock that somebody held while panicking.
//!
//! The standard library poisons it and asks whoever comes next. The answer depends on what the lock guards, so it has a
//! name: `PoisonError::into_inner`, which says nothing, is refused by clippy.
//!
//! **Invariant:** [`Whole::whole`] is for locks whose every change takes effect in one step: a value that is replaced, an
//! entry that comes or goes, a number that is counted. A panic between two such steps leaves something complete. What is
//! changed in several steps that need each other is thrown away after a panic, or stops what builds on it.
//!
//! `narthex-model` has the same for the crates that know it; this one knows none of ours.

use std::sync::PoisonError;

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
