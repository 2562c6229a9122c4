//! Metrics of the storage engine, under Prometheus' names where those exist.
//!
//! **Invariant:** each database has its own values; registering them is the caller's choice.

use crate::options::Tuning;
use narthex_client::{Counter, CounterVec, Error, Gauge, Histogram, Registry};
use std::sync::Arc;

/// fsync takes 0.2 ms on a good disk and seconds on a dying one.
const FSYNC_BOUNDS: &[f64] = &[
    0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
    10.0,
];

type CountByJob = CounterVec<1>;

macro_rules! metrics {
    ($($field:ident: $kind:ident, $name:literal, $help:literal $(, $bounds:expr)?;)*) => {
        /// The metrics of one database.
        pub(crate) struct Metrics {
            $(pub(crate) $field: Arc<$kind>,)*
        }

        impl Default for Metrics {
            fn default() -> Self {
                Self { $($field: Arc::new($kind::new($name, $help $(, $bounds)?)),)* }
            }
        }

        impl Metrics {
            /// Adds all metrics to `registry`.
            pub(crate) fn register(&self, registry: &Registry) -> Result<(), Error> {
                $(registry.register_shared(Arc::<$kind>::clone(&self.$field))?;)*
                Ok(())
            }
        }
    };
}

metrics! {
    head_series: Gauge, "prometheus_tsdb_head_series", "Total number of series in the head.";
    head_strips: Gauge, "narthex_tsdb_head_strips", "Number of strips (origins with their columns) in the head.";
    head_bytes: Gauge, "narthex_tsdb_head_bytes", "Encoded bytes of rows in the head.";
    head_min_time: Gauge, "prometheus_tsdb_head_min_time", "Minimum time in the head in milliseconds since the epoch.";
    head_max_time: Gauge, "prometheus_tsdb_head_max_time", "Maximum time in the head in milliseconds since the epoch.";
    series_created: Counter, "prometheus_tsdb_head_series_created_total", "Total number of series created in the head.";
    series_removed: Counter, "prometheus_tsdb_head_series_removed_total", "Total number of series removed from the head.";
    samples_appended: Counter, "prometheus_tsdb_head_samples_appended_total", "Total number of appended samples.";
    rows_appended: Counter, "narthex_tsdb_head_rows_appended_total", "Total number of rows appended to strips.";
    out_of_order_appended: Counter, "narthex_tsdb_head_out_of_order_samples_appended_total", "Appended samples that fitted in no row.";
    duplicates: Counter, "narthex_tsdb_duplicate_samples_total", "Samples refused because another value was stored for their time.";
    refused_series: CountByJob, "narthex_tsdb_refused_series_total", "Times that a new series was refused because memory was short, by job.", &["job"];
    out_of_order: Counter, "prometheus_tsdb_out_of_order_samples_total", "Samples refused because newer ones of their series exist.";
    too_old: Counter, "prometheus_tsdb_too_old_samples_total", "Samples refused because they are older than the store keeps.";
    too_new: Counter, "narthex_tsdb_too_new_samples_total", "Samples refused because they are too far ahead of the clock.";
    clock_doubt: Gauge, "narthex_tsdb_clock_doubt_seconds", "How far the wall clock was set forward lately; retention does not count it yet.";
    wal_written_bytes: Counter, "narthex_tsdb_wal_written_bytes_total", "Bytes written to the write-ahead log.";
    wal_write_failures: Counter, "prometheus_tsdb_wal_writes_failed_total", "Total number of writes to the log that failed.";
    wal_rotation_failures: Counter, "narthex_tsdb_wal_rotation_failures_total", "Times another log file was due and could not be created; the one before is written on.";
    wal_fsync_seconds: Histogram, "prometheus_tsdb_wal_fsync_duration_seconds", "Duration of fsync of the log.", FSYNC_BOUNDS;
    wal_fsync_failures: Counter, "narthex_tsdb_wal_fsync_failures_total", "Failed fsyncs of the log; one stops all writing.";
    wal_corruptions: Counter, "prometheus_tsdb_wal_corruptions_total", "Total number of damaged places found in the log.";
    wal_truncations: Counter, "prometheus_tsdb_wal_truncations_total", "Total number of times log files were removed.";
    wal_bytes: Gauge, "prometheus_tsdb_wal_storage_size_bytes", "Size of the write-ahead log.";
    replay_seconds: Gauge, "prometheus_tsdb_data_replay_duration_seconds", "Time taken to replay the log at start.";
    poisoned: Gauge, "narthex_tsdb_poisoned", "1 when a failure stopped all writing until a restart.";
    blocks_loaded: Gauge, "prometheus_tsdb_blocks_loaded", "Number of blocks that are served.";
    open_blocks: Gauge, "narthex_tsdb_open_block_files", "Files of blocks that are open; the others are opened when they are read.";
    blocks_bytes: Gauge, "prometheus_tsdb_storage_blocks_bytes", "Bytes of all blocks.";
    blocks_adopted: Counter, "narthex_tsdb_blocks_adopted_total", "Whole blocks that the manifest did not list and a start took in.";
    quarantined: Gauge, "narthex_tsdb_quarantined_files", "Files that a start moved to quarantine/ because nothing lists them and they could not be taken in.";
    block_corruptions: Counter, "narthex_tsdb_block_corruptions_total", "Damaged places found in blocks.";
    flushes: Counter, "prometheus_tsdb_compactions_total", "Blocks written.";
    flush_failures: Counter, "prometheus_tsdb_compactions_failed_total", "Blocks that could not be written.";
    flush_seconds: Gauge, "narthex_tsdb_last_flush_seconds", "Time the last block took to write.";
    merges: Counter, "narthex_tsdb_merges_total", "Blocks written from several others.";
    merge_failures: Counter, "narthex_tsdb_merges_failed_total", "Merges of blocks that were given up.";
    merge_seconds: Counter, "narthex_tsdb_merge_seconds_total", "Time spent merging blocks.";
    merge_written_bytes: Counter, "narthex_tsdb_merge_written_bytes_total", "Bytes of blocks written by merging.";
    retention_time: Counter, "prometheus_tsdb_time_retentions_total", "Blocks removed because of their age.";
    retention_size: Counter, "prometheus_tsdb_size_retentions_total", "Blocks removed because of the size limit.";
    retention_seconds: Gauge, "prometheus_tsdb_retention_limit_seconds", "How long to retain samples in storage; 0 is no limit.";
    retention_bytes: Gauge, "prometheus_tsdb_retention_limit_bytes", "Max number of bytes to be retained in blocks and log; 0 is no limit.";
    max_exemplars: Gauge, "prometheus_tsdb_exemplar_max_exemplars", "Total number of exemplars that memory holds at most.";
}

impl Metrics {
    /// Shows the bounds in effect.
    #[expect(
        clippy::cast_precision_loss,
        reason = "bounds people write are far below 2^53"
    )]
    pub(crate) fn show_bounds(&self, tuning: &Tuning) {
        let retention_ms = tuning.retention_ms.unwrap_or_default();
        self.retention_seconds.set(retention_ms as f64 / 1000.0);
        let bytes = tuning.retention_bytes.unwrap_or_default();
        self.retention_bytes.set(bytes as f64);
        self.max_exemplars.set(tuning.max_exemplars as f64);
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}
