//! What queries may read, and what they will read.
//!
//! **Invariant:** an estimate reads no samples but the newest of some series; it never decides whether a query is answered.

use crate::plan::Use;
use narthex_model::{
    cell,
    storage::{Batch, Context, Prepared, StorageError, TimeRange},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Most series and samples that a query may read, summed over its selectors; 0 means no limit.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ReadLimits {
    /// Series.
    pub series: u64,
    /// Samples, of histograms by their weight.
    pub samples: u64,
}

/// Limits of all queries, which may change at any time.
#[derive(Debug, Default)]
pub struct CostLimits {
    series: AtomicU64,
    samples: AtomicU64,
    duration_ms: AtomicU64,
}

/// What a query reads.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CostEstimate {
    /// Series, summed over selectors.
    pub series: u64,
    /// Samples, of histograms by their weight.
    pub samples: u64,
    /// What the estimate leaves out.
    pub warnings: Vec<String>,
}

impl ReadLimits {
    /// Returns the lower of both limits.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let lower = |a: u64, b: u64| if a == 0 || b == 0 { a.max(b) } else { a.min(b) };
        Self {
            series: lower(self.series, other.series),
            samples: lower(self.samples, other.samples),
        }
    }
}

impl CostLimits {
    /// Sets the limits; a duration of zero means none.
    pub fn set(&self, reads: ReadLimits, duration: Duration) {
        let duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        self.series.store(reads.series, Ordering::Relaxed);
        self.samples.store(reads.samples, Ordering::Relaxed);
        self.duration_ms.store(duration_ms, Ordering::Relaxed);
    }

    /// Returns what queries may read.
    #[must_use]
    pub fn reads(&self) -> ReadLimits {
        ReadLimits {
            series: self.series.load(Ordering::Relaxed),
            samples: self.samples.load(Ordering::Relaxed),
        }
    }

    /// Returns how long a query may take, if that is limited.
    #[must_use]
    pub fn duration(&self) -> Option<Duration> {
        let ms = self.duration_ms.load(Ordering::Relaxed);
        (ms > 0).then(|| Duration::from_millis(ms))
    }
}

/// What `info` selects depends on what it is applied to.
const INCOMPLETE: &str =
    "query cost estimate is incomplete: info() selects additional series at runtime";

/// Series of a selector whose newest samples say how much its samples weigh.
const WEIGHED: usize = 50;

impl CostEstimate {
    /// Estimates what uses of selectors read that have been resolved; `is_partial` if others are found while the query runs.
    ///
    /// # Errors
    /// Fails when the store does.
    pub(crate) fn new(
        prepared: &dyn Prepared,
        uses: &[Use],
        is_partial: bool,
        ctx: &Context,
    ) -> Result<Self, StorageError> {
        let mut estimate = Self {
            warnings: prepared.warnings(),
            ..Self::default()
        };
        for one in uses {
            let batches = prepared.batches(one.selector, ctx)?;
            let (mut series, mut samples, mut pace) = (0, 0, ctx.stop.pace());
            for batch in &batches {
                pace.spend(1)?;
                let rows = if one.newest { 1 } else { batch.rows(one.range) };
                series += batch.len() as u64;
                samples += (rows * batch.len()) as u64;
            }
            let (weight, weighed) = weight(&batches, one.range, ctx)?;
            estimate.series += series;
            estimate.samples += if weighed == 0 {
                samples
            } else {
                let all = u128::from(samples) * u128::from(weight) / u128::from(weighed);
                u64::try_from(all).unwrap_or(u64::MAX)
            };
        }
        if is_partial {
            estimate.warnings.push(INCOMPLETE.to_owned());
        }
        Ok(estimate)
    }
}

/// Returns the weight of the newest samples of some first series, and how many that are.
fn weight(
    batches: &[Arc<dyn Batch>],
    range: TimeRange,
    ctx: &Context,
) -> Result<(u64, u64), StorageError> {
    let (mut weight, mut weighed, mut left) = (0, 0, WEIGHED);
    for batch in batches {
        if left == 0 {
            break;
        }
        let series: Vec<u32> = (0..batch.len().min(left) as u32).collect();
        left -= series.len();
        let mut newest = Vec::new();
        batch.last(&series, range, &mut newest, ctx)?;
        let alive = newest.into_iter().flatten();
        for last in alive.filter(|last| !cell::is_stale(last.cell)) {
            weighed += 1;
            weight += last.weight();
        }
    }
    Ok((weight, weighed))
}
