//! The queue of one Alertmanager, and the loop that empties it.
//!
//! **Invariant:** an Alertmanager gets alerts in the order in which rules sent them, and never waits for another one.
//! Every alert that was queued is counted as sent or as dropped.

use crate::{
    config::NotifierOptions,
    encode,
    metrics::LoopMetrics,
    post::{Post, PostError},
};
use narthex_model::{storage::Lease, sync::Whole as _};
use narthex_net::{StopToken, Stopper};
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

/// Pauses before a batch that may still be taken is sent again.
///
/// Prometheus drops it at once, and the alert comes again after its resend delay of a minute. An Alertmanager that only
/// restarts is back sooner than that. Together with four timeouts of 10 s the pauses end at about that minute.
const PAUSES: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(15),
];

/// An alert as it is posted, with the memory it leases; the loops of all Alertmanagers share it.
pub(crate) struct Encoded {
    pub(crate) json: String,
    pub(crate) _lease: Lease,
}

/// The queue of one Alertmanager.
pub(crate) struct SendLoop {
    url: String,
    options: Arc<NotifierOptions>,
    queue: Mutex<VecDeque<Arc<Encoded>>>,
    /// Alerts of the batch that is neither sent nor dropped yet.
    under_way: AtomicUsize,
    work: Notify,
    /// Stops the loop, at the latest when it is dropped.
    stopper: Stopper,
    stop: StopToken,
    metrics: LoopMetrics,
}

impl SendLoop {
    /// Returns an empty queue; `run` empties it.
    pub(crate) fn new(url: &str, options: Arc<NotifierOptions>) -> Self {
        let (stopper, stop) = Stopper::new();
        Self {
            url: url.to_owned(),
            options,
            queue: Mutex::default(),
            under_way: AtomicUsize::new(0),
            work: Notify::new(),
            stopper,
            stop,
            metrics: LoopMetrics::new(url),
        }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn stop_token(&self) -> &StopToken {
        &self.stop
    }

    /// Queues alerts; beyond the capacity the oldest are dropped.
    pub(crate) fn add(&self, alerts: &[Arc<Encoded>]) {
        let mut queue = self.queue.lock().whole();
        if self.stop.is_stopped() {
            return self.drop_alerts(alerts.len(), "the Alertmanager is gone");
        }
        queue.extend(alerts.iter().cloned());
        let excess = queue.len().saturating_sub(self.options.queue_capacity);
        queue.drain(..excess);
        self.metrics.set_queue_length(queue.len());
        drop(queue);
        if excess > 0 {
            self.drop_alerts(excess, "the queue is full");
        }
        self.work.notify_one();
    }

    /// Counts alerts that are not sent.
    pub(crate) fn drop_alerts(&self, count: usize, reason: &str) {
        if count > 0 {
            tracing::warn!(
                alertmanager = self.url,
                count,
                reason,
                "Alerts were dropped."
            );
            self.metrics.dropped.inc_by(count as u64);
        }
    }

    /// Ends the loop: what waits is sent or dropped.
    pub(crate) fn close(&self) {
        self.stopper.stop();
    }

    /// Sends what is queued until closed.
    pub(crate) async fn run(&self, post: &impl Post) {
        while !self.stop.is_stopped() {
            let batch = self.next_batch();
            if batch.is_empty() {
                tokio::select! {
                    () = self.work.notified() => {}
                    () = self.stop.stopped() => {}
                }
            } else {
                // Outside a drain no failure ends the loop.
                let _ = self.deliver(&batch, post).await;
            }
        }
        if self.options.drain_on_shutdown {
            self.drain(post).await;
        }
        self.abandon("the Alertmanager is gone, or the process ends");
    }

    /// Drops everything that waits, and what a loop that was cut off had taken.
    pub(crate) fn abandon(&self, reason: &str) {
        let mut queue = self.queue.lock().whole();
        let left = queue.len() + self.under_way.swap(0, Relaxed);
        queue.clear();
        self.metrics.set_queue_length(0);
        drop(queue);
        self.drop_alerts(left, reason);
    }

    /// Sends what waits, until a batch fails for a reason that would fail the others too.
    async fn drain(&self, post: &impl Post) {
        loop {
            let batch = self.next_batch();
            if batch.is_empty() {
                return;
            }
            match self.deliver(&batch, post).await {
                Err(error) if error.may_pass => return,
                _ => {}
            }
        }
    }

    fn next_batch(&self) -> Vec<Arc<Encoded>> {
        let mut queue = self.queue.lock().whole();
        let size = queue.len().min(self.options.batch_size());
        let batch = queue.drain(..size).collect();
        self.metrics.set_queue_length(queue.len());
        batch
    }

    /// Sends a batch, again while that may help; it is sent or dropped afterwards.
    async fn deliver(&self, batch: &[Arc<Encoded>], post: &impl Post) -> Result<(), PostError> {
        self.under_way.store(batch.len(), Relaxed);
        let delivered = self.attempt(batch, post).await;
        self.under_way.store(0, Relaxed);
        delivered
    }

    async fn attempt(&self, batch: &[Arc<Encoded>], post: &impl Post) -> Result<(), PostError> {
        let body = encode::body(batch.iter().map(|alert| alert.json.as_str()));
        let count = batch.len();
        let mut pauses = PAUSES.iter();
        let mut has_failed = false;
        loop {
            let begin = Instant::now();
            let Err(error) = post.post(&body).await else {
                self.metrics.count_sent(count, begin.elapsed());
                return Ok(());
            };
            if !has_failed {
                self.metrics.errors.inc_by(count as u64);
            }
            has_failed = true;
            let (alertmanager, reason) = (&self.url, &error.reason);
            tracing::error!(alertmanager, count, err = reason, "Error sending alerts");
            let pause = pauses.next().filter(|_| error.may_pass);
            let paused = match pause {
                Some(pause) => self.stop.run(tokio::time::sleep(*pause)).await,
                None => None,
            };
            if paused.is_none() {
                self.drop_alerts(count, "sending failed");
                return Err(error);
            }
            self.metrics.retried.inc_by(count as u64);
        }
    }

    #[cfg(test)]
    pub(crate) fn totals(&self) -> [u64; 5] {
        self.metrics.totals()
    }
}

#[cfg(test)]
mod tests;
