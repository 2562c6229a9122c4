//! Gates: limits on concurrent requests of a kind, with a bounded wait and metrics.
//!
//! Invariant: a request that waits or has passed is counted until it gives up or drops its pass, even if its client
//! disconnects.

use std::sync::Arc;
use std::time::Duration;

use narthex_client::{CounterVec, GaugeVec};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) static MOST: GaugeVec<1> = GaugeVec::new(
    "narthex_http_requests_in_flight_max",
    "Requests that may be worked on at once, by gate.",
    &["gate"],
);
pub(crate) static IN_FLIGHT: GaugeVec<1> = GaugeVec::new(
    "narthex_http_requests_in_flight",
    "Requests being worked on, or whose answer is being sent where that holds its memory, by gate.",
    &["gate"],
);
pub(crate) static WAITING: GaugeVec<1> = GaugeVec::new(
    "narthex_http_requests_waiting",
    "Requests waiting for others to end, by gate.",
    &["gate"],
);
pub(crate) static REFUSED: CounterVec<1> = CounterVec::new(
    "narthex_http_requests_refused_total",
    "Requests refused because others took too long to end, by gate.",
    &["gate"],
);

/// A limit on concurrent requests.
#[derive(Debug)]
pub struct Gate {
    name: &'static str,
    most: usize,
    permits: Arc<Semaphore>,
}

/// Permission to work on a request, given back on drop.
#[derive(Debug)]
pub struct Pass {
    _permit: OwnedSemaphorePermit,
    _counted: Counted,
}

/// The error for a request that waited too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused;

impl Gate {
    /// Returns a gate for `most` concurrent requests, at least one; `name` is its metrics' label.
    #[must_use]
    pub fn new(name: &'static str, most: usize) -> Self {
        let most = most.clamp(1, Semaphore::MAX_PERMITS);
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        MOST.with(&[name]).set(most as f64);
        // Shows the counter as 0 from the start.
        REFUSED.with(&[name]).inc_by(0);
        for gauge in [&IN_FLIGHT, &WAITING] {
            gauge.with(&[name]).add(0.0);
        }
        Self {
            name,
            most,
            permits: Arc::new(Semaphore::new(most)),
        }
    }

    /// Returns the number of requests being worked on.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.most.saturating_sub(self.permits.available_permits())
    }

    /// Waits for a turn, at most for `longest`.
    ///
    /// # Errors
    /// Fails if no turn came in that time.
    pub async fn pass(&self, longest: Duration) -> Result<Pass, Refused> {
        let waiting = Counted::new(&WAITING, self.name);
        let turn = Arc::clone(&self.permits).acquire_owned();
        let Ok(turn) = tokio::time::timeout(longest, turn).await else {
            REFUSED.with(&[self.name]).inc();
            return Err(Refused);
        };
        drop(waiting);
        Ok(Pass {
            _permit: turn.expect("the gate is never closed"),
            _counted: Counted::new(&IN_FLIGHT, self.name),
        })
    }
}

/// One request counted in a gauge.
#[derive(Debug)]
struct Counted(&'static GaugeVec<1>, &'static str);

impl Counted {
    fn new(gauge: &'static GaugeVec<1>, name: &'static str) -> Self {
        gauge.with(&[name]).inc();
        Self(gauge, name)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.with(&[self.1]).dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_client::Registry;
    use std::future::{Future, poll_fn};
    use std::task::Poll;

    /// Returns the gate's metrics: limit, in flight, waiting, refused.
    fn shown(registry: &Registry, gate: &str) -> Vec<String> {
        let mut text = Vec::new();
        registry.encode_text(&mut text);
        let text = String::from_utf8(text).unwrap();
        let names = ["in_flight_max", "in_flight", "waiting", "refused_total"];
        let figure = |name: &str| {
            let line = format!("narthex_http_requests_{name}{{gate=\"{gate}\"}} ");
            let value = text.lines().find_map(|text| text.strip_prefix(&line));
            value.unwrap_or("missing").to_owned()
        };
        names.map(figure).to_vec()
    }

    #[tokio::test]
    async fn who_waits_passes_and_is_refused_is_shown() {
        let registry = Registry::new();
        registry
            .register_all(&[&MOST, &IN_FLIGHT, &WAITING, &REFUSED])
            .unwrap();
        let gate = Gate::new("test", 1);
        assert_eq!(shown(&registry, "test"), ["1", "0", "0", "0"]);
        let first = gate.pass(Duration::from_mins(1)).await.unwrap();
        assert_eq!(shown(&registry, "test"), ["1", "1", "0", "0"]);
        assert_eq!(gate.in_flight(), 1);
        let mut second = Box::pin(gate.pass(Duration::from_mins(1)));
        let polled = poll_fn(|context| Poll::Ready(second.as_mut().poll(context)));
        assert!(polled.await.is_pending());
        assert_eq!(shown(&registry, "test"), ["1", "1", "1", "0"]);
        assert_eq!(gate.pass(Duration::ZERO).await.err(), Some(Refused));
        assert_eq!(shown(&registry, "test"), ["1", "1", "1", "1"]);
        // The request's client disconnects.
        drop(second);
        assert_eq!(shown(&registry, "test"), ["1", "1", "0", "1"]);
        drop(first);
        assert_eq!(shown(&registry, "test"), ["1", "0", "0", "1"]);
        assert_eq!(gate.in_flight(), 0);
        assert!(gate.pass(Duration::ZERO).await.is_ok());
    }
}
