//! Metrics of sending, with Prometheus' names, by destination.

use super::encode::Counts;
use narthex_client::{
    Counter, CounterHandle, CounterVec, Gauge, GaugeHandle, GaugeVec, HistogramHandle,
    HistogramVec, Registry,
};

const BY: &[&str; 2] = &["remote_name", "url"];
const BY_REASON: &[&str; 3] = &["remote_name", "url", "reason"];

macro_rules! counters {
    ($($name:ident: $text:literal, $help:literal;)*) => {
        $(static $name: CounterVec<2> = CounterVec::new($text, $help, BY);)*
        /// Removes the counters of a destination.
        fn remove_counters(by: &[&str; 2]) {
            $($name.remove(by);)*
        }
        fn register_counters(registry: &Registry) -> Result<(), narthex_client::Error> {
            registry.register_all(&[$(&$name),*])
        }
    };
}

macro_rules! gauges {
    ($($name:ident: $text:literal, $help:literal;)*) => {
        $(static $name: GaugeVec<2> = GaugeVec::new($text, $help, BY);)*
        /// Removes the gauges of a destination.
        fn remove_gauges(by: &[&str; 2]) {
            $($name.remove(by);)*
        }
        fn register_gauges(registry: &Registry) -> Result<(), narthex_client::Error> {
            registry.register_all(&[$(&$name),*])
        }
    };
}

counters! {
    SAMPLES: "prometheus_remote_storage_samples_total", "Total number of samples sent to remote storage.";
    EXEMPLARS: "prometheus_remote_storage_exemplars_total", "Total number of exemplars sent to remote storage.";
    HISTOGRAMS: "prometheus_remote_storage_histograms_total", "Total number of histograms sent to remote storage.";
    METADATA: "prometheus_remote_storage_metadata_total", "Total number of metadata entries sent to remote storage.";
    SAMPLES_FAILED: "prometheus_remote_storage_samples_failed_total", "Samples that the remote storage refused for good.";
    EXEMPLARS_FAILED: "prometheus_remote_storage_exemplars_failed_total", "Exemplars that the remote storage refused for good.";
    HISTOGRAMS_FAILED: "prometheus_remote_storage_histograms_failed_total", "Histograms that the remote storage refused for good.";
    METADATA_FAILED: "prometheus_remote_storage_metadata_failed_total", "Metadata entries that the remote storage refused for good.";
    SAMPLES_RETRIED: "prometheus_remote_storage_samples_retried_total", "Samples that were sent again after an error that may pass.";
    EXEMPLARS_RETRIED: "prometheus_remote_storage_exemplars_retried_total", "Exemplars that were sent again after an error that may pass.";
    HISTOGRAMS_RETRIED: "prometheus_remote_storage_histograms_retried_total", "Histograms that were sent again after an error that may pass.";
    METADATA_RETRIED: "prometheus_remote_storage_metadata_retried_total", "Metadata entries that were sent again after an error that may pass.";
    ENQUEUE_RETRIES: "prometheus_remote_storage_enqueue_retries_total", "Times that reading waited because a shard was full.";
    BYTES: "prometheus_remote_storage_bytes_total", "Bytes of samples sent, compressed.";
    METADATA_BYTES: "prometheus_remote_storage_metadata_bytes_total", "Bytes of metadata sent, compressed.";
    QUEUE_ERRORS: "narthex_remote_write_queue_errors_total", "Rounds that could not be written to the queue.";
    SESSIONS_LOST: "narthex_remote_write_sessions_lost_total", "Sessions of frames that the remote end did not know.";
}

gauges! {
    HIGHEST_IN: "prometheus_remote_storage_queue_highest_timestamp_seconds", "Highest timestamp that was enqueued, in seconds since the epoch.";
    HIGHEST_SENT: "prometheus_remote_storage_queue_highest_sent_timestamp_seconds", "Highest timestamp that was sent, in seconds since the epoch.";
    PENDING: "prometheus_remote_storage_samples_pending", "Samples, histograms among them, that wait in the queue.";
    CAPACITY: "prometheus_remote_storage_shard_capacity", "Samples that each shard may hold.";
    SHARDS: "prometheus_remote_storage_shards", "Shards that send in parallel.";
    SHARDS_MAX: "prometheus_remote_storage_shards_max", "Most shards.";
    SHARDS_MIN: "prometheus_remote_storage_shards_min", "Fewest shards.";
    SHARDS_DESIRED: "prometheus_remote_storage_shards_desired", "Shards that the rates of samples ask for.";
    MAX_PER_SEND: "prometheus_remote_storage_max_samples_per_send", "Most samples of a request.";
    QUEUE_BYTES: "narthex_remote_write_queue_bytes", "Bytes of the queue on disk.";
    QUEUE_LIMIT: "narthex_remote_write_queue_limit_bytes", "Most bytes of the queue on disk.";
}

static SAMPLES_DROPPED: CounterVec<3> = CounterVec::new(
    "prometheus_remote_storage_samples_dropped_total",
    "Samples, histograms among them, that were not sent: too old, or given up because the queue was full or damaged.",
    BY_REASON,
);
static HISTOGRAMS_DROPPED: CounterVec<3> = CounterVec::new(
    "prometheus_remote_storage_histograms_dropped_total",
    "Histograms that were not sent.",
    BY_REASON,
);
static EXEMPLARS_DROPPED: CounterVec<3> = CounterVec::new(
    "prometheus_remote_storage_exemplars_dropped_total",
    "Exemplars that were not sent.",
    BY_REASON,
);
static SECONDS: HistogramVec<2> = HistogramVec::new(
    "prometheus_remote_storage_sent_batch_duration_seconds",
    "Duration of requests to the remote storage.",
    BY,
    &[
        0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 60.0, 120.0, 300.0,
    ],
);
pub(super) static SAMPLES_IN: Counter = Counter::new(
    "prometheus_remote_storage_samples_in_total",
    "Samples in to remote storage, compare to samples out for queue managers.",
);
pub(super) static HIGHEST: Gauge = Gauge::new(
    "prometheus_remote_storage_highest_timestamp_in_seconds",
    "Highest timestamp that has come into the remote storage via the Appender interface, in seconds since epoch.",
);

const REASONS: [&str; 5] = [TOO_OLD, CUSTOM_BUCKETS, LONE_EXEMPLAR, QUEUE_FULL, DAMAGED];
pub(super) const TOO_OLD: &str = "too_old";
pub(super) const CUSTOM_BUCKETS: &str = "nhcb_in_rw1_not_supported";
pub(super) const LONE_EXEMPLAR: &str = "no_sample_in_rw2";
pub(super) const QUEUE_FULL: &str = "queue_full";
pub(super) const DAMAGED: &str = "queue_damaged";

/// Registers the metrics of sending.
///
/// # Errors
/// Fails if a name is taken.
pub fn register_send_metrics(registry: &Registry) -> Result<(), narthex_client::Error> {
    register_counters(registry)?;
    register_gauges(registry)?;
    registry.register_all(&[
        &SAMPLES_DROPPED,
        &HISTOGRAMS_DROPPED,
        &EXEMPLARS_DROPPED,
        &SECONDS,
        &SAMPLES_IN,
        &HIGHEST,
    ])
}

/// A counter for each kind of sample.
pub(super) struct Kinds {
    samples: CounterHandle<2>,
    exemplars: CounterHandle<2>,
    histograms: CounterHandle<2>,
}

impl Kinds {
    pub(super) fn add(&self, counts: Counts) {
        self.samples.inc_by(counts.samples);
        self.exemplars.inc_by(counts.exemplars);
        self.histograms.inc_by(counts.histograms);
    }
}

/// The metrics of one destination; they are removed with it.
pub(super) struct DestinationMetrics {
    by: [String; 2],
    pub(super) sent: Kinds,
    pub(super) failed: Kinds,
    pub(super) retried: Kinds,
    pub(super) metadata: CounterHandle<2>,
    pub(super) metadata_failed: CounterHandle<2>,
    pub(super) metadata_retried: CounterHandle<2>,
    pub(super) enqueue_retries: CounterHandle<2>,
    pub(super) bytes: CounterHandle<2>,
    pub(super) metadata_bytes: CounterHandle<2>,
    pub(super) queue_errors: CounterHandle<2>,
    pub(super) sessions_lost: CounterHandle<2>,
    pub(super) highest_in: GaugeHandle<2>,
    pub(super) highest_sent: GaugeHandle<2>,
    pub(super) pending: GaugeHandle<2>,
    pub(super) capacity: GaugeHandle<2>,
    pub(super) shards: GaugeHandle<2>,
    pub(super) shards_max: GaugeHandle<2>,
    pub(super) shards_min: GaugeHandle<2>,
    pub(super) shards_desired: GaugeHandle<2>,
    pub(super) max_per_send: GaugeHandle<2>,
    pub(super) queue_bytes: GaugeHandle<2>,
    pub(super) queue_limit: GaugeHandle<2>,
    pub(super) seconds: HistogramHandle<2>,
}

impl DestinationMetrics {
    pub(super) fn new(name: &str, url: &str) -> Self {
        let by = &[name, url];
        let kinds = |samples: &'static CounterVec<2>,
                     exemplars: &'static CounterVec<2>,
                     histograms: &'static CounterVec<2>| Kinds {
            samples: samples.with(by),
            exemplars: exemplars.with(by),
            histograms: histograms.with(by),
        };
        let metrics = Self {
            sent: kinds(&SAMPLES, &EXEMPLARS, &HISTOGRAMS),
            failed: kinds(&SAMPLES_FAILED, &EXEMPLARS_FAILED, &HISTOGRAMS_FAILED),
            retried: kinds(&SAMPLES_RETRIED, &EXEMPLARS_RETRIED, &HISTOGRAMS_RETRIED),
            metadata: METADATA.with(by),
            metadata_failed: METADATA_FAILED.with(by),
            metadata_retried: METADATA_RETRIED.with(by),
            enqueue_retries: ENQUEUE_RETRIES.with(by),
            bytes: BYTES.with(by),
            metadata_bytes: METADATA_BYTES.with(by),
            queue_errors: QUEUE_ERRORS.with(by),
            sessions_lost: SESSIONS_LOST.with(by),
            highest_in: HIGHEST_IN.with(by),
            highest_sent: HIGHEST_SENT.with(by),
            pending: PENDING.with(by),
            capacity: CAPACITY.with(by),
            shards: SHARDS.with(by),
            shards_max: SHARDS_MAX.with(by),
            shards_min: SHARDS_MIN.with(by),
            shards_desired: SHARDS_DESIRED.with(by),
            max_per_send: MAX_PER_SEND.with(by),
            queue_bytes: QUEUE_BYTES.with(by),
            queue_limit: QUEUE_LIMIT.with(by),
            seconds: SECONDS.with(by),
            by: by.map(str::to_owned),
        };
        metrics.dropped(QUEUE_FULL, 0);
        metrics
    }

    /// Counts samples that are not sent.
    pub(super) fn dropped(&self, reason: &'static str, samples: u64) {
        let [name, url] = &self.by;
        SAMPLES_DROPPED.update(&[name, url, reason], |counter| counter.inc_by(samples));
    }

    /// Counts histograms that are not sent.
    pub(super) fn dropped_histograms(&self, reason: &'static str, histograms: u64) {
        let [name, url] = &self.by;
        HISTOGRAMS_DROPPED.update(&[name, url, reason], |counter| counter.inc_by(histograms));
    }

    /// Counts exemplars that are not sent.
    pub(super) fn dropped_exemplars(&self, reason: &'static str, exemplars: u64) {
        let [name, url] = &self.by;
        EXEMPLARS_DROPPED.update(&[name, url, reason], |counter| counter.inc_by(exemplars));
    }

    /// Returns how many samples, histograms and exemplars were refused so far.
    pub(super) fn refused_total(&self) -> u64 {
        let failed = &self.failed;
        let all = [&failed.samples, &failed.histograms, &failed.exemplars];
        all.map(|counter| counter.get()).iter().sum::<f64>() as u64
    }

    /// Returns how many samples were dropped so far.
    pub(super) fn dropped_total(&self) -> u64 {
        let [name, url] = &self.by;
        let of = |reason: &&str| SAMPLES_DROPPED.update(&[name, url, reason], |one| one.get());
        REASONS.iter().map(of).sum::<f64>() as u64
    }

    /// Removes the destination's series.
    pub(super) fn remove(&self) {
        let [name, url] = &self.by;
        let by = &[name.as_str(), url.as_str()];
        remove_counters(by);
        remove_gauges(by);
        SECONDS.remove(by);
        for reason in REASONS {
            for family in [&SAMPLES_DROPPED, &HISTOGRAMS_DROPPED, &EXEMPLARS_DROPPED] {
                family.remove(&[name, url, reason]);
            }
        }
    }
}

/// Converts milliseconds to a gauge's seconds.
pub(super) fn seconds(time_ms: i64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of our times fit")]
    {
        time_ms as f64 / 1000.0
    }
}
