//! Native histograms: exponential and custom buckets in one type.
//!
//! **Invariant:** a bucket slice has exactly as many entries as its spans have slots, and holds absolute counts.
//! Counts are `f64` for queries; integer histograms are exact up to 2^53 and remember that they were integers.

mod arith;
mod bounds;
mod kahan;
mod layout;
mod reset;
#[cfg(test)]
mod tests;
mod text;
mod trim;

pub use arith::{HistogramSum, IncompatibleBuckets, Notes};
pub use kahan::kahan_add;
pub use layout::Bucket;
pub use text::format_g;
pub use trim::Keep;

/// `histogram_schema` of a histogram whose bucket bounds are listed in `custom_values` (NHCB).
pub const CUSTOM_BUCKETS: i32 = -53;

/// Known relation of a histogram to its predecessor's counter.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ResetHint {
    /// Unknown: compare the two to find out.
    #[default]
    Unknown,
    /// The counter was reset before this histogram.
    Reset,
    /// The counter was not reset before this histogram.
    NotReset,
    /// Not a counter: it may go down.
    Gauge,
}

impl ResetHint {
    /// All hints, each at the place of its number in remote write and in files.
    pub const ALL: [Self; 4] = [Self::Unknown, Self::Reset, Self::NotReset, Self::Gauge];

    /// Returns the hint's number in remote write and in files.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }
}

/// A run of consecutive buckets.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Span {
    /// Gap to the end of the previous span; for the first span, the index of its first bucket.
    pub offset: i32,
    /// Number of buckets in the run.
    pub length: u32,
}

/// A native histogram with float counts.
///
/// With `histogram_schema` n in −4..=8, bucket i covers `(2^(2^-n))^(i-1) < v <= (2^(2^-n))^i`;
/// with `CUSTOM_BUCKETS`, bucket i covers `custom_values[i-1] < v <= custom_values[i]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// The resolution, or `CUSTOM_BUCKETS`.
    pub histogram_schema: i32,
    /// Known counter resets.
    pub reset_hint: ResetHint,
    /// Whether the source reported integer counts.
    pub integer_counts: bool,
    /// Width of the zero bucket on each side of zero, inclusive.
    pub zero_threshold: f64,
    /// Number of observations in the zero bucket.
    pub zero_count: f64,
    /// Number of all observations.
    pub count: f64,
    /// Sum of all observations.
    pub sum: f64,
    /// Layout of the positive buckets.
    pub positive_spans: Vec<Span>,
    /// Layout of the negative buckets.
    pub negative_spans: Vec<Span>,
    /// Counts of the positive buckets.
    pub positive_buckets: Vec<f64>,
    /// Counts of the negative buckets.
    pub negative_buckets: Vec<f64>,
    /// Upper bounds of custom buckets, ascending, without +Inf; empty otherwise.
    pub custom_values: Vec<f64>,
}
