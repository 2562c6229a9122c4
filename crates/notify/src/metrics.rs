//! Metrics of notifications, with Prometheus' names, by Alertmanager.
//!
//! **Invariant:** the series of an Alertmanager exist while a loop sends to it, even if several do at a time.

use narthex_client::{
    CounterHandle, CounterVec, Gauge, GaugeHandle, GaugeVec, HistogramHandle, HistogramVec,
    SummaryHandle, SummaryVec,
};
use narthex_model::sync::Whole as _;
use std::{collections::BTreeMap, sync::Mutex, time::Duration};

const BY: &[&str; 1] = &["alertmanager"];

narthex_net::metrics! {
    /// Registers the metrics of notifications, except for the number of Alertmanagers.
    ///
    /// # Errors
    /// Fails when a name is taken.
    pub fn register_metrics;

    LATENCY: SummaryVec<1> = "prometheus_notifications_latency_seconds",
        "Latency quantiles for sending alert notifications.", BY, &[0.5, 0.9, 0.99];
    LATENCY_HISTOGRAM: HistogramVec<1> = "prometheus_notifications_latency_histogram_seconds",
        "Latency histogram for sending alert notifications.", BY, &[0.01, 0.1, 1.0, 10.0];
    ERRORS: CounterVec<1> = "prometheus_notifications_errors_total",
        "Total number of sent alerts affected by errors.", BY;
    SENT: CounterVec<1> = "prometheus_notifications_sent_total",
        "Total number of alerts sent.", BY;
    DROPPED: CounterVec<1> = "prometheus_notifications_dropped_total",
        "Total number of alerts dropped: the queue or its memory was full, or sending failed for good.", BY;
    RETRIED: CounterVec<1> = "narthex_notifications_retried_total",
        "Total number of alerts sent again after an error that may pass.", BY;
    QUEUE_LENGTH: GaugeVec<1> = "prometheus_notifications_queue_length",
        "The number of alert notifications in the queue.", BY;
    QUEUE_CAPACITY: Gauge = "prometheus_notifications_queue_capacity",
        "The capacity of the alert notifications queue.";
}

/// How many loops send to each URL.
static USERS: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());

/// Sets the capacity that is shown.
pub(crate) fn set_capacity(alerts: usize) {
    QUEUE_CAPACITY.set(number(alerts));
}

/// The series of one Alertmanager; removed when the last loop that has them ends.
pub(crate) struct LoopMetrics {
    url: String,
    latency: SummaryHandle<1>,
    latency_histogram: HistogramHandle<1>,
    pub(crate) errors: CounterHandle<1>,
    sent: CounterHandle<1>,
    pub(crate) dropped: CounterHandle<1>,
    pub(crate) retried: CounterHandle<1>,
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
