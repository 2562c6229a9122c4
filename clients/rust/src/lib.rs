//! Metrics a process reports about itself: counters, gauges, classic and native histograms, summaries.
//!
//! Metrics are `static`, counting takes a few nanoseconds at any number of threads, and an exposition copies rendered
//! label sets and formats digits. There is no default exporter: [`Registry::encode`] fills a buffer for the caller to
//! serve, in the text format, OpenMetrics or protobuf as [`Format::negotiate`] finds the request asks for;
//! [`Registry::visit`] passes values without text, [`segment::Publisher`] keeps them in shared memory.
//!
//! ```
//! use narthex_client::{Counter, CounterVec, DEFAULT_BOUNDS, Histogram, global};
//!
//! static REQUESTS: Counter = Counter::new("app_requests_total", "Requests answered.");
//! static SECONDS: Histogram = Histogram::new("app_request_seconds", "Time to answer.", &DEFAULT_BOUNDS);
//! static ERRORS: CounterVec<2> = CounterVec::new("app_errors_total", "Errors.", &["method", "code"]);
//!
//! fn main() -> Result<(), narthex_client::Error> {
//!     global().register_all(&[&REQUESTS, &SECONDS, &ERRORS])?;
//!     narthex_client::process::register(global())?;
//!
//!     let not_found = ERRORS.with(&["GET", "404"]); // kept where it is used often
//!     REQUESTS.inc();
//!     SECONDS.observe(0.012);
//!     not_found.inc();
//!
//!     let mut text = Vec::new();
//!     global().encode_text(&mut text);
//!     assert!(text.starts_with(b"# HELP app_errors_total Errors."));
//!     Ok(())
//! }
//! ```
//!
//! `examples/tour.rs` shows every kind. `benches/hot.rs` measures the hot paths, `compare/` compares them with other
//! libraries.
//!
//! # What it costs
//!
//! - A thread counts in cells of its own, with a plain load, add and store: threads on one metric do not slow each
//!   other. Twice as many threads as CPUs (at least 8, at most 64) have such cells; others share some, with
//!   read-modify-write operations.
//! - A cell takes 8 bytes in each thread's shard that touches its page: a counter has 2 cells, a histogram one per
//!   bucket and 2, a summary 6 and 128 per power of two it has seen, a native histogram 5 and 8 per power of two.
//!   Nothing is allocated before the first use.
//! - Labels are rendered once per series for text, and once for protobuf when that is first asked for.
//! - A sampled exemplar ([`HistogramValue::observe_sampled`]) is asked for once per bucket and exposition; one that is
//!   not asked for costs one load.
//! - A gauge has one cell that all threads write, because a value that is set has no parts to add up.
//! - A [`TypedFamily`] whose labels are enums finds a series by its number.
//! - [`Family::with`] takes no lock and builds no key, but writes the series' reference count; [`Family::update`] does
//!   not, and a kept handle needs neither.
//! - [`Metric::set_enabled`] switches a metric off and on while it is used. Off, it costs the same one load that says
//!   where to count, and is not exposed.
//!
//! # What it is not
//!
//! - Not consistent across cells: an exposition may show a histogram's bucket with an observation its sum lacks. Count
//!   and `+Inf` bucket are always equal.
//! - Not for signal handlers or a counting allocator (an increment inside an increment of the same thread may be lost).
//! - Not unbounded: a [`Family`] has a cap, 10,000 by default, and one series for everything above it.
//! - Not a parser, a server or a push client.
//! - Not OpenMetrics to the letter: what the text format shows stays, such as the sum of a histogram with bounds below
//!   zero, and a counter whose name lacks `_total` is of unknown type.
//!
//! # Features
//!
//! - `fast-digits` (default): digits of fractions come from the crate `zmij`, so that a page of them takes half as long.
//!   Without it the crate has no dependencies; the bytes are the same.
//! - `derive`: `#[derive(Labels)]` and `#[derive(LabelValue)]`, from a crate of their own without dependencies.
#![cfg_attr(test, allow(clippy::unwrap_used))]
#![allow(
    clippy::disallowed_methods,
    reason = "the locks here guard tables whose changes take one step; what users' closures do, they do between steps"
)]

mod clock;
mod collector;
mod counter;
mod encode;
mod error;
mod exemplar;
mod family;
#[doc(hidden)]
pub mod fuzz;
mod gauge;
mod gzip;
mod histogram;
mod index;
mod info;
mod label;
mod metric;
mod name;
mod native;
mod number;
mod octaves;
mod point;
pub mod process;
mod range;
mod registry;
mod samples;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
pub mod segment;
mod shards;
mod spec;
mod summary;
mod texts;
mod visit;

pub use collector::{Desc, Samples};
pub use counter::{Counter, CounterValue};
pub use encode::{EncodeOptions, Format, TEXT_CONTENT_TYPE};
pub use error::Error;
pub use exemplar::EXEMPLAR_MAX_CHARS;
pub use family::{
    CounterFamily, CounterHandle, CounterVec, DEFAULT_SERIES_CAP, Family, GaugeFamily, GaugeHandle,
    GaugeVec, Handle, HistogramFamily, HistogramHandle, HistogramVec, NativeHistogramFamily,
    NativeHistogramHandle, NativeHistogramVec, OVERFLOW, SummaryFamily, SummaryHandle, SummaryVec,
    TypedFamily,
};
pub use gauge::{Gauge, GaugeValue};
pub use histogram::{DEFAULT_BOUNDS, Histogram, HistogramValue, MAX_BOUNDS, Timer};
pub use info::register_info;
#[doc(hidden)]
pub use label::combinations;
pub use label::{DigitBuffer, LabelValue, Labels};
pub use metric::{Metric, Single};
#[cfg(feature = "derive")]
pub use narthex_client_derive::{LabelValue, Labels};
pub use native::{NativeHistogram, NativeHistogramValue, NativeOptions};
pub use number::write as write_number;
pub use registry::{Registry, global};
pub use summary::{DEFAULT_AGE_BUCKETS, DEFAULT_MAX_AGE, Summary, SummaryValue};
pub use visit::{MetricType, Sample, SampleLabels, Visitor};

/// The examples of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
