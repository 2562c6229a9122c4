//! The conformance suite for stores.
//!
//! A store's test calls [`check`] with a function that makes fresh, empty subjects. Each case writes through the
//! sink, settles (a subject may flush, merge or restart there), and compares the store's answers with those of an
//! in-memory store, using [`dump`], which also checks every promise of the reading contract.

mod cases;
mod dump;
mod random;

pub use dump::{Dump, Sampled, dump};

use crate::storage::{Sink, Store};

/// A store under test.
pub trait Subject {
    /// Returns the reading half.
    fn store(&self) -> &dyn Store;

    /// Returns the writing half.
    fn sink(&self) -> &dyn Sink;

    /// Moves data to its final place: flushes, merges, closes and reopens, as the subject likes.
    ///
    /// The suite drops earlier bindings before it calls this.
    fn settle(&mut self);
}

impl Subject for crate::MemStore {
    fn store(&self) -> &dyn Store {
        self
    }

    fn sink(&self) -> &dyn Sink {
        self
    }

    fn settle(&mut self) {}
}

/// The time around which the suite writes, 2026-01-01; a store with retention must accept samples two hours older.
pub const BASE_MS: i64 = 1_767_225_600_000;

/// Runs every case, each on a fresh subject.
///
/// # Panics
/// Panics with the case's name and the first difference.
pub fn check(make: &mut dyn FnMut() -> Box<dyn Subject>) {
    for (name, case) in cases::CASES {
        let guard = NameOnPanic(name);
        case(make().as_mut());
        std::mem::forget(guard);
    }
    for seed in 1..=8 {
        random::check(make().as_mut(), seed);
    }
}

struct NameOnPanic(&'static str);

impl Drop for NameOnPanic {
    fn drop(&mut self) {
        // The panic's message describes the difference; this line names the case.
        std::io::Write::write_fmt(
            &mut std::io::stderr(),
            format_args!("conformance case: {}\n", self.0),
        )
        .ok();
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_store_in_memory_conforms() {
        super::check(&mut || Box::new(crate::MemStore::new()));
    }
}
