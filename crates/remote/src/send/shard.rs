//! One shard: sends its requests one after the other, each until it is taken or refused.
//!
//! **Invariant:** the next request waits for the one before, so that samples of a series arrive in order.

use super::{
    backoff::Backoff,
    batch::Batch,
    control::{Follower, Order},
    destination::Destination,
    post::Verdict,
    progress::Progress,
};
use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::sync::mpsc;

/// What a shard works with.
pub(super) struct Shard {
    pub(super) number: usize,
    pub(super) destination: Arc<Destination>,
    pub(super) progress: Arc<Mutex<Progress>>,
    pub(super) follower: Follower,
}

impl Shard {
    /// Sends batches until there are no more, or it is told to end. Those that are left are not acknowledged.
    pub(super) async fn run(mut self, mut batches: mpsc::Receiver<Batch>) {
        while let Some(batch) = batches.recv().await {
            if self.follower.now() >= Order::Finish || !self.deliver(&batch).await {
                return;
            }
            self.destination
                .acknowledge(&self.progress, self.number, batch.until);
        }
    }

    /// Sends a batch until it is taken, refused or too old; returns `false` if it is still to be sent.
    async fn deliver(&mut self, batch: &Batch) -> bool {
        let destination = Arc::clone(&self.destination);
        let queue = &destination.config.queue;
        let mut backoff = Backoff::new(queue.min_backoff, queue.max_backoff);
        let begin = Instant::now();
        let mut attempt = 0;
        loop {
            if batch.newest_ms < destination.oldest_ms() {
                destination.drop_old(batch.counts);
                return true;
            }
            let Some(verdict) = self.attempt(batch, attempt).await else {
                return false;
            };
            match verdict {
                Verdict::Taken { written: None, .. } if destination.is_doubtful(batch) => {
                    return false;
                }
                Verdict::Taken {
                    written,
                    takes_zstd,
                    takes_frames,
                } => {
                    destination.taken(batch, written, begin.elapsed());
                    destination.protocol.learn_zstd(takes_zstd);
                    destination.protocol.learn_frames(takes_frames);
                    return true;
                }
                Verdict::SessionLost { reason } => {
                    destination.lose_session(batch, &reason);
                    return false;
                }
                Verdict::Refused { is_unsupported, .. }
                    if is_unsupported && destination.fall_back(batch) =>
                {
                    return false;
                }
                Verdict::Refused {
                    reason, written, ..
                } => {
                    destination.refused(batch, &reason, written, begin.elapsed());
                    return true;
                }
                Verdict::Retry { reason, after } => {
                    destination.fails(&reason);
                    let pause = backoff.pause(after);
                    if !self.pause(pause).await {
                        return false;
                    }
                    attempt += 1;
                    destination.metrics.retried(batch.counts);
                }
            }
        }
    }

    /// Sends a batch once; `None` if the request was cut off.
    async fn attempt(&mut self, batch: &Batch, attempt: u32) -> Option<Verdict> {
        let destination = &self.destination;
        destination.metrics.sent(batch.counts);
        destination.metrics.bytes.inc_by(batch.body.len() as u64);
        let begin = Instant::now();
        let posted = destination.poster.post(
            batch.message,
            batch.compression,
            &batch.body,
            attempt,
            destination.now_ms(),
        );
        let verdict = tokio::select! {
            verdict = posted => Some(verdict),
            () = self.follower.at_least(Order::Abort) => None,
        };
        destination
            .metrics
            .seconds
            .observe(begin.elapsed().as_secs_f64());
        verdict
    }

    /// Pauses before the next attempt; returns `false` if there is to be none.
    async fn pause(&mut self, pause: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(pause) => true,
            () = self.follower.at_least(Order::Flush) => false,
        }
    }
}
