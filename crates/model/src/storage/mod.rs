//! The contract between what stores samples and what queries them.
//!
//! Reading: [`Store::view`] takes a snapshot; [`View::prepare`] resolves selectors and can estimate their
//! cost; [`Prepared::batches`] returns, for one selector, batches of series that share a time axis; [`Batch::read`]
//! decodes cells of a batch into a caller-owned [`Tile`]. There is no iterator per series.
//!
//! Writing: [`Sink::bind`] resolves a schema once; [`Binding::append`] takes frames; [`Binding::rebind`] a diff.
//!
//! All of it is synchronous and may block. Memory is leased from a [`Budget`] and long work polls a [`Stop`]; both
//! are arguments ([`Context`]), never globals. Damaged data that cannot be read is left out of the answer and
//! reported in the context's [`Warnings`].

mod budget;
mod error;
mod hash;
mod helpers;
mod label_order;
mod listing;
mod mark;
mod merge;
mod merged_batch;
mod order;
mod read;
mod selector;
mod stop;
mod tile;
mod warnings;
mod write;

pub use budget::{Account, Budget, Lease, OverBudget, Pressure, PressureLevels, Share};
pub use error::StorageError;
pub use hash::group_key_of;
pub use helpers::{Helper, Helpers};
pub use label_order::{LABEL_ORDER_BYTES, in_label_order};
pub use listing::{
    Cardinality, CardinalityCount, Collector, ExemplarSeries, Listed, Listing, SeriesQuery,
};
pub use mark::{ListingMark, ListingOf, Marker};
pub use merge::unify;
pub use merged_batch::{Layer, MergedBatch};
pub use order::{arrange, ordered};
pub use read::{Batch, Estimate, LastCell, Prepared, SeriesKey, Store, View, WriteMark};
pub use selector::{Grouping, Hints, Selector, TimeRange, Want};
pub use stop::{Pace, Stop, StopReason};
pub use tile::{Facts, Layout, Tile};
pub use warnings::Warnings;
pub use write::{Binding, BoundRound, Outcome, SeriesSample, Sink, SyncToken};

/// Resources and deadline of a call.
#[derive(Clone, Debug)]
pub struct Context {
    /// The budget that memory is leased from.
    pub budget: Budget,
    /// Polled at least once per millisecond of work.
    pub stop: Stop,
    /// Warnings about data that could not be read.
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

    /// Returns the same context with separate warnings, to keep them apart from those of other calls.
    #[must_use]
    pub fn with_own_warnings(&self) -> Self {
        Self {
            warnings: Warnings::default(),
            ..self.clone()
        }
    }
}
