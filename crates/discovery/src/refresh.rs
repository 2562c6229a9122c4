//! Mechanisms that poll at an interval.
//!
//! Invariant: a failed round reports nothing, so previously found targets stay.

use std::time::Duration;

use narthex_net::StopToken;
use tokio::time::{Instant, MissedTickBehavior};

use crate::discoverer::Updates;
use crate::error::DiscoveryError;
use crate::group::TargetGroup;
use crate::metrics;

/// A mechanism that finds everything in one round.
pub(crate) trait Round: Send {
    fn round(&mut self) -> impl Future<Output = Result<Vec<TargetGroup>, DiscoveryError>> + Send;
}

/// Interval of the rounds, and their labels in metrics.
#[derive(Debug, Clone)]
pub(crate) struct Refresh {
    pub(crate) mechanism: &'static str,
    pub(crate) job: String,
    pub(crate) interval: Duration,
}

impl Refresh {
    /// Runs a round at once and then at every interval until stopped.
    pub(crate) async fn run(self, mut rounds: impl Round, updates: Updates, stop: StopToken) {
        let mut ticks = tokio::time::interval(self.interval.max(Duration::from_millis(1)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if stop.run(ticks.tick()).await.is_none() {
                return;
            }
            let start = Instant::now();
            let Some(found) = stop.run(rounds.round()).await else {
                return;
            };
            let seconds = start.elapsed().as_secs_f64();
            let (job, mechanism) = (self.job.as_str(), self.mechanism);
            metrics::REFRESH_DURATION.update(&[job, mechanism], |s| s.observe(seconds));
            metrics::REFRESH_HISTOGRAM.update(&[mechanism], |h| h.observe(seconds));
            match found {
                Ok(groups) => updates.send(groups),
                Err(error) => {
                    metrics::REFRESH_FAILURES.update(&[job, mechanism], |c| c.inc());
                    tracing::error!(%error, mechanism, job, "Unable to refresh target groups.");
                }
            }
        }
    }
}
