//! The contract between what stores samples and what queries them.
//!
//! Reading: [`Store::view`] pins a consistent state; [`View::prepare`] resolves selectors and can estimate their
//! cost; [`Prepared::batches`] gives, for one selector, batches of series that share a time axis;
//! [`Batch::read`] decodes cells of a batch into a caller-owned [`Tile`]. There is no iterator per series.
//!
//! Writing: [`Sink::bind`] resolves a schema once; [`Binding::append`] takes frames; [`Binding::rebind`] a diff.
//!
//! All of it is synchronous and may block. Everything that takes memory is leased from a [`Budget`], everything
//! that takes time polls a [`Stop`]; both are arguments ([`Context`]), never globals. What cannot be read because
//! it is damaged is left out of the answer and named in the context's [`Warnings`].

mod budget;
mod error;
mod hash;
mod listing;
mod merge;
mod overlay;
mod read;
mod selector;
mod stop;
mod tile;
mod warnings;
mod write;

pub use budget::{Account, Budget, Lease, OverBudget, Pressure, PressureLevels, Share};
pub use error::StorageError;
pub use hash::group_key_of;
pub use listing::{
    Cardinality, CardinalityCount, Collector, ExemplarSeries, Listed, Listing, SeriesQuery,
};
pub use merge::unify;
pub use overlay::{Layer, Overlay};
pub use read::{Batch, Estimate, LastCell, Prepared, Store, View};
pub use selector::{Grouping, Hints, Selector, TimeRange, Want};
pub use stop::{Pace, Stop, StopReason};
pub use tile::{Facts, Layout, Tile};
pub use warnings::Warnings;
pub use write::{Binding, Outcome, SeriesSample, Sink, SyncToken};

/// What a call may use and when it must end.
#[derive(Clone, Debug)]
pub struct Context {
    /// Where memory is leased from.
    pub budget: Budget,
    /// Asked at least every millisecond of work.
    pub stop: Stop,
    /// Where reading says what it had to leave out.
    pub warnings: Warnings,
}

impl Context {
    /// Returns a context without limits, for tests and tools.
    #[must_use]
    pub fn unlimited() -> Self {
        Self {
            budget: Budget::unlimited(),
            stop: Stop::never(),
            warnings: Warnings::default(),
        }
    }

    /// Returns the same context with warnings of its own, so that they can be told from those of other calls.
    #[must_use]
    pub fn with_own_warnings(&self) -> Self {
        Self {
            warnings: Warnings::default(),
            ..self.clone()
        }
    }
}
