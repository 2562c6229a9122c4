//! Metrics of looking at files.

use narthex_client::{Counter, CounterVec, GaugeVec, Registry};

pub(crate) static FILES: GaugeVec<1> = GaugeVec::new(
    "narthex_files",
    "Files or directories that an entry finds.",
    &["job"],
);
pub(crate) static DUPLICATES: GaugeVec<1> = GaugeVec::new(
    "narthex_files_duplicate_series",
    "Series left out because another file of the entry has them.",
    &["job"],
);
pub(crate) static READ: Counter = Counter::new(
    "narthex_files_read_total",
    "Times a file was read because it had changed.",
);
pub(crate) static UNFINISHED: Counter = Counter::new(
    "narthex_files_unfinished_total",
    "Times a file was being written, or half-written, when it was looked at.",
);
pub(crate) static FAILED: CounterVec<1> = CounterVec::new(
    "narthex_files_failed_total",
    "Times a file could not be used, by reason.",
    &["reason"],
);
pub(crate) static TORN: Counter = Counter::new(
    "narthex_files_torn_total",
    "Times a .db file of a Python process was damaged behind what was read of it.",
);
pub(crate) static MISSED: Counter = Counter::new(
    "narthex_files_missed_rounds_total",
    "Looks that did not take place because the one before took longer than the interval.",
);

/// Registers the metrics of looking at files.
///
/// # Errors
/// Fails when a name is taken.
pub fn register_metrics(registry: &Registry) -> Result<(), narthex_client::Error> {
    registry.register_all(&[
        &FILES,
        &DUPLICATES,
        &READ,
        &UNFINISHED,
        &FAILED,
        &TORN,
        &MISSED,
    ])
}
