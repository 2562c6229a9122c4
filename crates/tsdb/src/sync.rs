//! What to do with a lock of the engine that somebody held while panicking; [`narthex_model::sync`] has the other case.
//!
//! **Invariant:** what [`Guarded::guarded`] locks is changed under [`crate::wal::Wal::guard`] alone, or by the log itself,
//! which does the same: a panic in the middle of a change ends all writing until a restart, so nobody builds on what is
//! half-done. Queries go on reading it: what was acknowledged before is in it.

use std::sync::PoisonError;

/// Results of locking, and of waiting with a lock.
pub(crate) trait Guarded {
    /// What they are without the question of poison.
    type Guard;

    /// Returns the guard, also when a panic has poisoned the lock: it has poisoned the log as well.
    fn guarded(self) -> Self::Guard;
}

impl<G> Guarded for Result<G, PoisonError<G>> {
    type Guard = G;

    fn guarded(self) -> G {
        #[expect(
            clippy::disallowed_methods,
            reason = "the one place, with a name that says why"
        )]
        self.unwrap_or_else(PoisonError::into_inner)
    }
}
