//! What functions there are and what each one computes.
//!
//! **Invariant:** the table is sorted by name and every entry's id has exactly one implementation.

mod table;

pub use table::{FUNCTIONS, Function, FunctionId};

/// Finds a function by its exact name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Function> {
    FUNCTIONS
        .binary_search_by(|f| f.name.cmp(name))
        .ok()
        .and_then(|at| FUNCTIONS.get(at))
}
