//! The table of functions and their implementations.
//!
//! **Invariant:** the table is sorted by name and every entry's id has exactly one implementation.

mod buckets;
pub(crate) mod classic;
pub(crate) mod dates;
pub(crate) mod extended;
pub(crate) mod histograms;
mod integral;
pub(crate) mod labels;
pub(crate) mod math;
mod native;
pub(crate) mod over;
pub(crate) mod over_floats;
pub(crate) mod over_histograms;
pub(crate) mod over_time;
pub(crate) mod quantile;
pub(crate) mod rate;
mod rate_histograms;
mod regression;
mod resets;
mod smoothing;
pub(crate) mod sort;
mod starts;
mod table;
pub(crate) mod window;

pub(crate) use buckets::almost_equal;
pub use table::{FUNCTIONS, Function, FunctionId};

/// Finds a function by its exact name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Function> {
    FUNCTIONS
        .binary_search_by(|f| f.name.cmp(name))
        .ok()
        .and_then(|at| FUNCTIONS.get(at))
}
