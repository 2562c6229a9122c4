//! Treatment of engine locks whose holder panicked; [`narthex_model::sync`] has the other case.
//!
//! **Invariant:** data locked with [`Guarded::guarded`] changes only under [`crate::wal::Wal::guard`], or in the log
//! itself, which does the same: a panic in the middle of a change ends all writing until a restart, so nobody builds on
//! a half-done change. Queries keep reading it, because it holds everything acknowledged before.

use std::sync::PoisonError;

/// Results of locking, and of waiting with a lock.
pub(crate) trait Guarded {
    /// The result once poison is disregarded.
    type Guard;

    /// Returns the guard even if a panic has poisoned the lock, because it has poisoned the log as well.
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
