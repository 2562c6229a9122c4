//! Metrics of notifications, with Prometheus' names, by Alertmanager.
//!
//! **Invariant:** the series of an Alertmanager exist while a loop sends to it, even if several do at a time.

use narthex_client::{
    CounterHandle, CounterVec, Gauge, GaugeHandle, GaugeVec, HistogramHandle, HistogramVec,
    Registry, SummaryHandle, SummaryVec,
};
use narthex_model::sync::Whole as _;
use std::{collections::BTreeMap, sync::Mutex, time::Duration};

const BY: &[&str; 1] = &["alertmanager"];

static LATENCY: SummaryVec<1> = SummaryVec::new(
    "prometheus_notifications_latency_seconds",
    "Latency quantiles for sending alert notifications.",
    BY,
    &[0.5, 0.9, 0.99],
);
static LATENCY_HISTOGRAM: HistogramVec<1> = HistogramVec::new(
    "prometheus_notifications_latency_histogram_seconds",
    "Latency histogram for sending alert notifications.",
    BY,
    &[0.01, 0.1, 1.0, 10.0],
);
static ERRORS: CounterVec<1> = CounterVec::new(
    "prometheus_notifications_errors_total",
    "Total number of sent alerts affected by errors.",
    BY,
);
static SENT: CounterVec<1> = CounterVec::new(
    "prometheus_notifications_sent_total",
    "Total number of alerts sent.",
    BY,
);
static DROPPED: CounterVec<1> = CounterVec::new(
    "prometheus_notifications_dropped_total",
    "Total number of alerts dropped: the queue or its memory was full, or sending failed for good.",
    BY,
);
static RETRIED: CounterVec<1> = CounterVec::new(
    "narthex_notifications_retried_total",
    "Total number of alerts sent again after an error that may pass.",
    BY,
);
static QUEUE_LENGTH: GaugeVec<1> = GaugeVec::new(
    "prometheus_notifications_queue_length",
    "The number of alert notifications in the queue.",
    BY,
);
static QUEUE_CAPACITY: Gauge = Gauge::new(
    "prometheus_notifications_queue_capacity",
    "The capacity of the alert notifications queue.",
);

/// How many loops send to each URL.
static USERS: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());

/// Registers the metrics of notifications, except for the number of Alertmanagers.
///
/// # Errors
/// Fails when a name is taken.
pub fn register_metrics(registry: &Registry) -> Result<(), narthex_client::Error> {
    registry.register_all(&[
        &LATENCY,
        &LATENCY_HISTOGRAM,
        &ERRORS,
        &SENT,
        &DROPPED,
        &RETRIED,
        &QUEUE_LENGTH,
        &QUEUE_CAPACITY,
    ])
}

/// Sets the capacity that is shown.
pub(crate) fn set_capacity(alerts: usize) {
    QUEUE_CAPACITY.set(number(alerts));
}

/// The series of one Alertmanager; removed when the last loop that has them ends.
pub(crate) struct LoopMetrics {
    url: String,
    latency: SummaryHandle<1>,
    latency_histogram: HistogramHandle<1>,
    errors: CounterHandle<1>,
    sent: CounterHandle<1>,
    dropped: CounterHandle<1>,
    retried: CounterHandle<1>,
    queue_length: GaugeHandle<1>,
}

impl LoopMetrics {
    pub(crate) fn new(url: &str) -> Self {
        // Held while the series are made: another loop's end must not remove them in between.
        let mut users = USERS.lock().whole();
        *users.entry(url.to_owned()).or_default() += 1;
        Self {
            url: url.to_owned(),
            latency: LATENCY.with(&[url]),
            latency_histogram: LATENCY_HISTOGRAM.with(&[url]),
            errors: ERRORS.with(&[url]),
            sent: SENT.with(&[url]),
            dropped: DROPPED.with(&[url]),
            retried: RETRIED.with(&[url]),
            queue_length: QUEUE_LENGTH.with(&[url]),
        }
    }

    pub(crate) fn count_sent(&self, alerts: usize, latency: Duration) {
        self.sent.inc_by(alerts as u64);
        self.latency.observe_duration(latency);
        self.latency_histogram.observe_duration(latency);
    }

    pub(crate) fn count_errors(&self, alerts: usize) {
        self.errors.inc_by(alerts as u64);
    }

    pub(crate) fn count_dropped(&self, alerts: usize) {
        self.dropped.inc_by(alerts as u64);
    }

    pub(crate) fn count_retried(&self, alerts: usize) {
        self.retried.inc_by(alerts as u64);
    }

    pub(crate) fn set_queue_length(&self, alerts: usize) {
        self.queue_length.set(number(alerts));
    }

    #[cfg(test)]
    pub(crate) fn totals(&self) -> [u64; 5] {
        let [sent, errors, dropped, retried] =
            [&self.sent, &self.errors, &self.dropped, &self.retried].map(|one| one.get() as u64);
        [
            sent,
            errors,
            dropped,
            retried,
            self.queue_length.get() as u64,
        ]
    }
}

impl Drop for LoopMetrics {
    fn drop(&mut self) {
        let mut users = USERS.lock().whole();
        let Some(count) = users.get_mut(&self.url) else {
            return;
        };
        *count -= 1;
        if *count > 0 {
            return;
        }
        users.remove(&self.url);
        let by = &[self.url.as_str()];
        LATENCY.remove(by);
        LATENCY_HISTOGRAM.remove(by);
        ERRORS.remove(by);
        SENT.remove(by);
        DROPPED.remove(by);
        RETRIED.remove(by);
        QUEUE_LENGTH.remove(by);
    }
}

#[expect(clippy::cast_precision_loss, reason = "no queue has 2^53 alerts")]
fn number(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_live_as_long_as_a_loop_sends() {
        let url = "http://metrics-test:9093/api/v2/alerts";
        let exists = || SENT.remove(&[url]);
        let (first, second) = (LoopMetrics::new(url), LoopMetrics::new(url));
        drop(first);
        second.count_sent(3, Duration::from_millis(5));
        assert_eq!(second.totals(), [3, 0, 0, 0, 0]);
        assert!(exists());
        drop(LoopMetrics::new(url));
        let third = LoopMetrics::new(url);
        drop((second, third));
        assert!(!exists());
    }
}
