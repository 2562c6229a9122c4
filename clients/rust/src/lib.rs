//! Metrics a process reports about itself: counters, gauges, histograms, summaries.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod collector;
mod counter;
mod error;
mod family;
#[doc(hidden)]
pub mod fuzz;
mod gauge;
mod histogram;
mod index;
mod lanes;
mod metric;
mod number;
pub mod process;
mod range;
mod registry;
mod summary;
mod text;
mod visit;

pub use collector::{Desc, Samples, register_info};
pub use counter::{Counter, CounterValue};
pub use error::Error;
pub use family::{
    CounterHandle, CounterVec, DEFAULT_SERIES_CAP, Family, GaugeHandle, GaugeVec, Handle,
    HistogramHandle, HistogramVec, OVERFLOW, SummaryHandle, SummaryVec,
};
pub use gauge::{Gauge, GaugeValue};
pub use histogram::{DEFAULT_BOUNDS, Histogram, HistogramValue, MAX_BOUNDS, Timer};
pub use metric::{Metric, Single};
pub use number::write as write_number;
pub use registry::{Registry, global};
pub use summary::{DEFAULT_AGE_BUCKETS, DEFAULT_MAX_AGE, Summary, SummaryValue};
pub use text::{TEXT_CONTENT_TYPE, TextEncoder};
pub use visit::{Labels, MetricType, Sample, Visitor};
