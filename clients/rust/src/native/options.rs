//! Resolution and limits of native histograms, checked by the compiler where they are constant.

use std::time::Duration;

use super::buckets::{COARSEST, FINEST};
use crate::histogram::MAX_BOUNDS;
use crate::spec::NativeSpec;

/// Resolution and limits of a native histogram.
///
/// By default: 8 buckets for each power of two (schema 3, at most 9 % wide), 160 buckets, no resets, everything up to
/// 2^-128 in the zero bucket, no classic buckets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NativeOptions {
    pub(super) native: NativeSpec,
    pub(super) bounds: &'static [f64],
}

impl NativeOptions {
    /// Creates the default options.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            native: NativeSpec {
                schema: 3,
                // 2^-128, written as its bits: an exponent of -128 and no fraction.
                zero_threshold: f64::from_bits((1023 - 128) << 52),
                max_zero_threshold: 0.0,
                max_buckets: 160,
                min_reset: Duration::ZERO,
            },
            bounds: &[],
        }
    }

    /// Sets the resolution: each bucket's upper bound is `2^(2^-schema)` times that of the one before.
    ///
    /// # Panics
    ///
    /// With a schema outside -4 to 8; for a `static` that is a compile error.
    #[must_use]
    pub const fn schema(mut self, schema: i8) -> Self {
        assert!(
            COARSEST <= schema && schema <= FINEST,
            "a schema is -4 to 8"
        );
        self.native.schema = schema;
        self
    }

    /// Sets the largest magnitude that counts as zero.
    ///
    /// # Panics
    ///
    /// With a subnormal, negative or infinite one, or NaN; for a `static` that is a compile error.
    #[must_use]
    pub const fn zero_threshold(mut self, threshold: f64) -> Self {
        assert!(
            threshold >= f64::MIN_POSITIVE && threshold < f64::INFINITY,
            "a threshold is a positive number"
        );
        self.native.zero_threshold = threshold;
        self
    }

    /// Sets up to which magnitude the zero bucket may widen where there are too many buckets; 0, the default, for never.
    ///
    /// The buckets next to zero are merged into it one by one, before the resolution is lowered. It stays as wide until
    /// a reset.
    ///
    /// # Panics
    ///
    /// With a negative or infinite one, or NaN; for a `static` that is a compile error.
    #[must_use]
    pub const fn max_zero_threshold(mut self, threshold: f64) -> Self {
        assert!(
            threshold >= 0.0 && threshold < f64::INFINITY,
            "a threshold is a positive number"
        );
        self.native.max_zero_threshold = threshold;
        self
    }

    /// Sets how many buckets are exposed at most, both signs together; 0 for no limit.
    ///
    /// A limit below the number of buckets that schema -4 takes is exceeded.
    #[must_use]
    pub const fn max_buckets(mut self, buckets: usize) -> Self {
        self.native.max_buckets = buckets;
        self
    }

    /// Sets the least time between two resets, which restore the resolution; zero for none.
    #[must_use]
    pub const fn min_reset(mut self, interval: Duration) -> Self {
        self.native.min_reset = interval;
        self
    }

    /// Adds classic buckets, for formats and servers without native ones; `bounds` as in
    /// [`Histogram::new`](crate::Histogram::new).
    ///
    /// # Panics
    ///
    /// With more than [`MAX_BOUNDS`] bounds; for a `static` that is a compile error.
    #[must_use]
    pub const fn bounds(mut self, bounds: &'static [f64]) -> Self {
        assert!(
            bounds.len() <= MAX_BOUNDS,
            "a histogram has too many bounds"
        );
        self.bounds = bounds;
        self
    }
}

impl Default for NativeOptions {
    fn default() -> Self {
        Self::new()
    }
}
