//! Metrics of sending, with Prometheus' names, by destination.

use super::encode::Counts;
use narthex_client::{
    Counter, CounterHandle, CounterVec, Gauge, GaugeHandle, GaugeVec, HistogramHandle,
    HistogramVec, Registry,
};

const BY: &[&str; 2] = &["remote_name", "url"];
const BY_REASON: &[&str; 3] = &["remote_name", "url", "reason"];

/// Declares the families of all destinations, and what one destination has of them.
macro_rules! destination_metrics {
    (
        counters { $($counter:ident: $counter_text:literal, $counter_help:literal;)* }
        gauges { $($gauge:ident: $gauge_text:literal, $gauge_help:literal;)* }
    ) => {
        struct Families {
            $($counter: CounterVec<2>,)*
            $($gauge: GaugeVec<2>,)*
        }

        static FAMILIES: Families = Families {
            $($counter: CounterVec::new($counter_text, $counter_help, BY),)*
            $($gauge: GaugeVec::new($gauge_text, $gauge_help, BY),)*
        };

        impl Families {
            fn register(&'static self, registry: &Registry) -> Result<(), narthex_client::Error> {
                registry.register_all(&[$(&self.$counter,)* $(&self.$gauge,)*])
            }

            /// Removes the series of a destination.
            fn remove(&self, by: &[&str; 2]) {
                $(self.$counter.remove(by);)*
                $(self.$gauge.remove(by);)*
            }
        }

        /// The metrics of one destination; they are removed with it.
        pub(super) struct DestinationMetrics {
            by: [String; 2],
            $(pub(super) $counter: CounterHandle<2>,)*
            $(pub(super) $gauge: GaugeHandle<2>,)*
            pub(super) seconds: HistogramHandle<2>,
        }

        impl DestinationMetrics {
            pub(super) fn new(name: &str, url: &str) -> Self {
                let by = &[name, url];
                let metrics = Self {
                    $($counter: FAMILIES.$counter.with(by),)*
                    $($gauge: FAMILIES.$gauge.with(by),)*
                    seconds: SECONDS.with(by),
                    by: by.map(str::to_owned),
                };
                metrics.dropped(QUEUE_FULL, 0);
                metrics
            }
        }
    };
}

destination_metrics! {
    counters {
        samples: "prometheus_remote_storage_samples_total", "Total number of samples sent to remote storage.";
        exemplars: "prometheus_remote_storage_exemplars_total", "Total number of exemplars sent to remote storage.";
        histograms: "prometheus_remote_storage_histograms_total", "Total number of histograms sent to remote storage.";
        metadata: "prometheus_remote_storage_metadata_total", "Total number of metadata entries sent to remote storage.";
        samples_failed: "prometheus_remote_storage_samples_failed_total", "Samples that the remote storage refused for good.";
        exemplars_failed: "prometheus_remote_storage_exemplars_failed_total", "Exemplars that the remote storage refused for good.";
        histograms_failed: "prometheus_remote_storage_histograms_failed_total", "Histograms that the remote storage refused for good.";
        metadata_failed: "prometheus_remote_storage_metadata_failed_total", "Metadata entries that the remote storage refused for good.";
        samples_retried: "prometheus_remote_storage_samples_retried_total", "Samples that were sent again after an error that may pass.";
        exemplars_retried: "prometheus_remote_storage_exemplars_retried_total", "Exemplars that were sent again after an error that may pass.";
        histograms_retried: "prometheus_remote_storage_histograms_retried_total", "Histograms that were sent again after an error that may pass.";
        metadata_retried: "prometheus_remote_storage_metadata_retried_total", "Metadata entries that were sent again after an error that may pass.";
        enqueue_retries: "prometheus_remote_storage_enqueue_retries_total", "Times that reading waited because a shard was full.";
        bytes: "prometheus_remote_storage_bytes_total", "Bytes of samples sent, compressed.";
        metadata_bytes: "prometheus_remote_storage_metadata_bytes_total", "Bytes of metadata sent, compressed.";
        queue_errors: "narthex_remote_write_queue_errors_total", "Rounds that could not be written to the queue.";
        sessions_lost: "narthex_remote_write_sessions_lost_total", "Sessions of frames that the remote end did not know.";
    }
    gauges {
        highest_in: "prometheus_remote_storage_queue_highest_timestamp_seconds", "Highest timestamp that was enqueued, in seconds since the epoch.";
        highest_sent: "prometheus_remote_storage_queue_highest_sent_timestamp_seconds", "Highest timestamp that was sent, in seconds since the epoch.";
        pending: "prometheus_remote_storage_samples_pending", "Samples, histograms among them, that wait in the queue.";
        capacity: "prometheus_remote_storage_shard_capacity", "Samples that each shard may hold.";
        shards: "prometheus_remote_storage_shards", "Shards that send in parallel.";
        shards_max: "prometheus_remote_storage_shards_max", "Most shards.";
        shards_min: "prometheus_remote_storage_shards_min", "Fewest shards.";
        shards_desired: "prometheus_remote_storage_shards_desired", "Shards that the rates of samples ask for.";
        max_per_send: "prometheus_remote_storage_max_samples_per_send", "Most samples of a request.";
        queue_bytes: "narthex_remote_write_queue_bytes", "Bytes of the queue on disk.";
        queue_limit: "narthex_remote_write_queue_limit_bytes", "Most bytes of the queue on disk.";
    }
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
    FAMILIES.register(registry)?;
    registry.register_all(&[
        &SAMPLES_DROPPED,
        &HISTOGRAMS_DROPPED,
        &EXEMPLARS_DROPPED,
        &SECONDS,
        &SAMPLES_IN,
        &HIGHEST,
    ])
}

impl DestinationMetrics {
    /// Counts what is sent.
    pub(super) fn sent(&self, counts: Counts) {
        add([&self.samples, &self.exemplars, &self.histograms], counts);
    }

    /// Counts what was refused.
    pub(super) fn failed(&self, counts: Counts) {
        let of_kind = [
            &self.samples_failed,
            &self.exemplars_failed,
            &self.histograms_failed,
        ];
        add(of_kind, counts);
    }

    /// Counts what is sent again.
    pub(super) fn retried(&self, counts: Counts) {
        let of_kind = [
            &self.samples_retried,
            &self.exemplars_retried,
            &self.histograms_retried,
        ];
        add(of_kind, counts);
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
        let all = [
            &self.samples_failed,
            &self.histograms_failed,
            &self.exemplars_failed,
        ];
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
        FAMILIES.remove(by);
        SECONDS.remove(by);
        for reason in REASONS {
            for family in [&SAMPLES_DROPPED, &HISTOGRAMS_DROPPED, &EXEMPLARS_DROPPED] {
                family.remove(&[name, url, reason]);
            }
        }
    }
}

fn add([samples, exemplars, histograms]: [&CounterHandle<2>; 3], counts: Counts) {
    samples.inc_by(counts.samples);
    exemplars.inc_by(counts.exemplars);
    histograms.inc_by(counts.histograms);
}

/// Converts milliseconds to a gauge's seconds.
pub(super) fn seconds(time_ms: i64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of our times fit")]
    {
        time_ms as f64 / 1000.0
    }
}
